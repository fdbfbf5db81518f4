"""Runs programs as ranks, as its children. It imports torch once for all of them, because the import takes longer than most ranks.

    forker.py FD

FD is one end of a multiprocessing.Pipe(), on which requests arrive:

    ("start", COMMAND, ENVIRONMENT, FILE, DESTROYS)
        COMMAND is a program and its arguments, ENVIRONMENT what is added to the environment, FILE where stdout and stderr go.
        Unless DESTROYS, the child ends where it calls destroy_process_group(). Answered with the child's pid.
    ("wait", PID)
        Answered with the exit status when the child is over; -N: killed by signal N.

It ends when the other end is closed. A child runs the program as Python runs a script: as a module __main__ that has no names of this
one, to the end of the interpreter.
"""

import os
import sys
import types
from multiprocessing.connection import Connection

import torch
import torch.distributed
import torch.nn.parallel  # noqa: F401


def end() -> None:
    sys.stdout.flush()
    os._exit(0)


def next_rank(asked: Connection) -> list[str]:
    """Answers requests. Returns in each child, with the command that this child is to run."""
    while True:
        what, *rest = asked.recv()
        if what == "wait":
            (pid,) = rest
            asked.send(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            continue
        command, environment, output, destroys = rest
        if pid := os.fork():
            asked.send(pid)
            continue
        asked.close()
        os.environ.update(environment)
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, 1)
        os.dup2(file, 2)
        os.close(file)
        if not destroys:
            torch.distributed.destroy_process_group = end
        return command


try:
    sys.argv = next_rank(Connection(int(sys.argv[1])))
except EOFError:
    sys.exit()
program = sys.argv[0]
sys.path[0] = os.path.dirname(program)
main = types.ModuleType("__main__")
main.__file__ = program
sys.modules["__main__"] = main
with open(program, "rb") as source:
    code = compile(source.read(), program, "exec")
exec(code, vars(main))
