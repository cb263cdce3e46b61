"""Speed and memory side by side with other learners; one file per competitor, one command.

`competitors/` says what is run, `worker` runs one case in a process of its own, `measure` starts
the workers, `growth` varies rows, experts and variables, `images` fits the
paper's large ones, `report` makes tables of what came back.
"""
