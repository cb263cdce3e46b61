"""Downloads from a local server that answers correctly, wrongly, or not at all."""

import gzip
import hashlib
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from dynpart.datasets import digits, load_mnist
from dynpart.datasets._fetch import RemoteFile, download, find_file

CONTENT = b"published content"


class Server:
    """Answers each path by a function of the number of the request, or with 404."""

    def __init__(self):
        self.answers = {}
        self.requests = Counter()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.requests[self.path] += 1
                answer = outer.answers.get(self.path, lambda count: 404)
                body = answer(outer.requests[self.path])
                status, body = (body, b"") if isinstance(body, int) else (200, body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def remote(self, *paths, content=CONTENT, name="file.bin"):
        checksum = "sha256:" + hashlib.sha256(content).hexdigest()
        return RemoteFile(name, checksum, tuple(self.address + path for path in paths))


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)  # between two tries
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = Server()
    yield server
    server.server.shutdown()
    server.server.server_close()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNPART_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_good_file_is_fetched_once_and_kept(server, cache):
    server.answers["/good"] = lambda count: CONTENT
    path = download("the set", server.remote("/good"))
    assert path == cache / "file.bin"
    assert path.read_bytes() == CONTENT
    assert download("the set", server.remote("/good")) == path
    assert server.requests["/good"] == 1


def test_a_file_put_into_the_cache_by_hand_needs_no_connection(cache):
    cache.mkdir()
    (cache / "file.bin").write_bytes(CONTENT)
    checksum = "sha256:" + hashlib.sha256(CONTENT).hexdigest()
    remote = RemoteFile("file.bin", checksum, ("http://127.0.0.1:9/file.bin",))
    assert download("the set", remote).read_bytes() == CONTENT


@pytest.mark.parametrize("failure", [503, b"published con", b"PUBLISHED CONTENT"])
def test_a_failure_that_passes_is_tried_again(server, cache, failure):
    server.answers["/late"] = lambda count: failure if count < 3 else CONTENT
    assert download("the set", server.remote("/late")).read_bytes() == CONTENT
    assert server.requests["/late"] == 3


@pytest.mark.parametrize("failure", [404, 500, b"", b"published con", b"PUBLISHED CONTENT"])
def test_a_failure_that_stays_leaves_nothing_and_says_what_to_do(server, cache, failure):
    server.answers["/bad"] = lambda count: failure
    with pytest.raises(FileNotFoundError) as caught:
        download("the set", server.remote("/bad"))
    message = str(caught.value)
    for word in ("the set", "file.bin", "/bad", "DYNPART_DATA", "folder=", str(cache)):
        assert word in message
    assert not cache.exists() or not list(cache.iterdir())


def test_the_next_address_is_tried(server, cache):
    server.answers["/good"] = lambda count: CONTENT
    server.answers["/bad"] = lambda count: b"something else"
    remote = server.remote("/missing", "/bad", "/good")
    assert download("the set", remote).read_bytes() == CONTENT


def test_a_damaged_file_in_the_cache_is_replaced(server, cache):
    cache.mkdir()
    (cache / "file.bin").write_bytes(b"damaged")
    server.answers["/good"] = lambda count: CONTENT
    assert download("the set", server.remote("/good")).read_bytes() == CONTENT


def test_without_a_server_the_message_names_file_and_place(cache, server):
    server.server.shutdown()
    server.server.server_close()
    with pytest.raises(FileNotFoundError, match=r"(?s)could not download file\.bin.*put file\.bin"):
        download("the set", server.remote("/good"))


def test_the_users_folder_comes_first_and_an_argument_is_binding(
    server, cache, tmp_path, monkeypatch
):
    server.answers["/good"] = lambda count: CONTENT
    remote = server.remote("/good")
    folder = tmp_path / "mine"
    folder.mkdir()
    with pytest.raises(FileNotFoundError, match="folder="):
        find_file("the set", folder, ["file.bin"], remote, "")
    monkeypatch.setenv("DYNPART_DATA", str(folder))
    assert find_file("the set", None, ["file.bin"], remote, "") == cache / "file.bin"
    (folder / "file.bin").write_bytes(b"mine")
    assert find_file("the set", None, ["file.bin"], remote, "") == folder / "file.bin"


def test_mnist_is_downloaded_and_read(server, cache, tiny_mnist, idx_bytes, monkeypatch):
    arrays, _ = tiny_mnist
    remotes = {}
    for name, array in arrays.items():
        content = gzip.compress(idx_bytes(array))
        server.answers[f"/{name}.gz"] = lambda count, content=content: content
        remotes[name] = server.remote(f"/{name}.gz", content=content, name=f"{name}.gz")
    for kind in ("images", "labels"):
        files = [remote for name, remote in remotes.items() if kind in name]
        monkeypatch.setattr(digits, f"_MNIST_{kind.upper()}", tuple(files))
    mnist = load_mnist()
    np.testing.assert_array_equal(mnist.images[:7], arrays["train-images-idx3-ubyte"] > 127)
    assert load_mnist().data.shape == (10, 784)
    assert set(server.requests.values()) == {1}
    assert {path.name for path in Path(cache).iterdir()} == {f"{name}.gz" for name in arrays}
