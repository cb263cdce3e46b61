"""Speed and memory side by side with other learners; one file per competitor, one command.

`competitors/` defines the cases, `worker` runs one case in its own process, `measure` starts the
workers, `growth` varies rows, experts and variables, `images` fits the paper's large images, and
`report` makes tables of the results.
"""
