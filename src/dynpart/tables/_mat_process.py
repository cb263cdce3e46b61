"""The process that reads MATLAB files; imports nothing of the package, so that it starts quickly.

Prints one line of JSON with the content of a file, waits for the name of an array, and copies that
array into an .npy file.
"""

import json
import sys
from typing import Any

ROOM = 2**32
"""Address space for the interpreter and its libraries."""


def limit_memory(n_bytes: int) -> None:
    """Limit the memory, so that a false size raises an error."""
    try:
        import resource
    except ImportError:  # not a Unix system
        return
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    wanted = ROOM + n_bytes
    if most == resource.RLIM_INFINITY or wanted < most:
        resource.setrlimit(resource.RLIMIT_AS, (wanted, most))


def listed(path: str) -> dict[str, Any]:
    """Names, shapes and types of the arrays."""
    from scipy.io import whosmat

    try:
        return {"content": whosmat(path, appendmat=False)}
    except NotImplementedError:
        return {"error": "is a MATLAB file of version 7.3; save it with -v7"}
    except Exception as error:  # a damaged file makes scipy raise errors of many kinds
        return {"error": f"is not a readable MATLAB file: {error}"}


def copied(path: str, name: str, copy: str) -> dict[str, Any]:
    """Copy one array into a file of its own."""
    import numpy as np
    from scipy.io import loadmat

    try:
        array = loadmat(path, variable_names=[name], appendmat=False)[name]
        np.save(copy, array, allow_pickle=False)
    except Exception as error:
        return {"error": f"is not a readable MATLAB file: {error!r}"}
    return {}


def main(path: str, copy: str) -> None:
    """List the file, then copy the array that is requested."""
    limit_memory(0)
    print(json.dumps(listed(path)), flush=True)
    question = sys.stdin.readline()
    if question:
        wanted = json.loads(question)
        limit_memory(4 * wanted["n_bytes"])
        print(json.dumps(copied(path, wanted["name"], copy)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
