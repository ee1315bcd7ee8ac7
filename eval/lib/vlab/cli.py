# SPDX-License-Identifier: GPL-2.0-only
"""The command vlab."""

import argparse
import contextlib
import os
import shlex
import subprocess
import sys
from pathlib import Path

from . import (
    accel,
    daemon,
    host,
    kernels,
    presets,
    runs,
    shapes,
    tool,
    truth,
    virtual_time,
    vtime_presets,
)
from .clock import CLOCKS, VIRTUAL
from .errors import EX_USAGE, LabError
from .vm import Vm, find_kernel

VLAB = Path(__file__).parents[2] / "vlab"
EPILOG = f"""\
exit codes: the command's own; 64 bad usage, 69 something needed is missing, 75 the VM did not
come up or went away, 124 the command ran past --timeout, 130 interrupted

environment: {kernels.FOLDERS_VARIABLE} a folder of kernels (each a folder with vmlinuz, config),
VAWARE_LAB_ACCEL kvm or tcg instead of finding out (or icount: TCG in one thread, where 4 ns of the
guest's time are one instruction), VAWARE_LAB_VIRTIOFSD the daemon to use

examples:
  vlab run --vcpus 2 --shape stacked:0,1 --truth -- hackbench -g 4 -l 100
  vlab up --name a --shape floating:2+hog && vlab exec a -- uname -r; vlab down a
"""


def main() -> int:
    """Run the command; returns its exit code."""
    args = _parser().parse_args()

    def act() -> int | None:
        if args.do not in (_kernels, _shapes):
            host.require_root()
        return args.do(args)

    return tool.run("vlab", act)


def _parser() -> argparse.ArgumentParser:
    parser = tool.make_parser(
        "vlab", "VMs with shaped vCPUs, and what the host did to them.", EPILOG
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, do, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        sub.set_defaults(do=do)
        return sub

    run = command("run", _run, "boot a VM, run one command in it, take it down")
    _add_vm_options(run)
    run.add_argument("--timeout", type=float, metavar="S", help="kill the command after S seconds")
    run.add_argument("--truth", action="store_true", help="print what the host took from each vCPU")
    run.add_argument(
        "--get",
        action="append",
        default=[],
        metavar="GUEST:HOST",
        help="copy a file back afterwards (repeatable)",
    )
    run.add_argument("cmd", nargs="+", metavar="CMD", help="words, or one shell line in quotes")

    up = command("up", _up, "boot a VM that stays up under a name")
    up.add_argument("--name", required=True, help="the name for exec, shape, truth, get, put, down")
    _add_vm_options(up)
    up.add_argument("--foreground", action="store_true", help="stay, and end the VM on Ctrl-C")

    do = command("exec", _exec, "run a command in a VM that is up")
    do.add_argument("name")
    do.add_argument("--timeout", type=float, metavar="S", help="kill the command after S seconds")
    do.add_argument("cmd", nargs="+", metavar="CMD", help="words, or one shell line in quotes")

    shape = command("shape", _shape, "change the shape of a VM that is up")
    shape.add_argument("name")
    shape.add_argument("shape", help="see vlab shapes")

    command("truth", _truth, "print what the host took from each vCPU since boot").add_argument(
        "name"
    )
    for name, text in (
        ("get", "copy a file or folder out of a VM"),
        ("put", "copy a file or folder into a VM"),
    ):
        copy = command(name, _copy, text)
        copy.set_defaults(op=name)
        copy.add_argument("name")
        copy.add_argument("source")
        copy.add_argument("target")

    down = command("down", _down, "end a VM, or all of them")
    down.add_argument("name", nargs="?")
    down.add_argument("--all", action="store_true", help="every VM that is up under a name")

    command("list", _list, "list the VMs that are up")
    command("kernels", _kernels, "list the kernels at hand")
    command("shapes", _shapes, "list the terms that shapes are made of")
    command("clean", _clean, "remove what dead runs left behind")
    return parser


def _add_vm_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kernel", metavar="K", help="release, its beginning, or a folder")
    parser.add_argument("--vcpus", type=int, metavar="N", help="default: the preset's, else 4")
    parser.add_argument("--shape", default="floating:2", metavar="S", help="default floating:2")
    parser.add_argument("--memory", type=int, default=3072, metavar="MIB", help="default 3072")
    parser.add_argument(
        "--clock", choices=CLOCKS, help="what time is (default: KVM's or a virtual one)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the simulated host")
    parser.add_argument(
        "--ns-per-instruction",
        type=int,
        default=1,
        metavar="NS",
        help="of the virtual clock: 1 (default), 2, 4 or 8",
    )
    parser.add_argument(
        "--paravirt",
        default=",".join(virtual_time.PARAVIRT),
        metavar="LIST",
        help="what of KVM's interface a VM of the virtual clock has (default: %(default)s)",
    )
    parser.add_argument("--append", default="", metavar="ARGS", help="more kernel command line")
    parser.add_argument(
        "--share",
        action="append",
        default=[],
        metavar="DIR",
        help="host folder the guest may write, at the same path (repeatable)",
    )


def _vm(args: argparse.Namespace) -> Vm:
    clock = args.clock or accel.best_clock(find_kernel(args.kernel))
    known = vtime_presets if clock == VIRTUAL else presets
    preset = known.find(args.shape, args.vcpus)
    if clock != VIRTUAL and (len(preset.phases) > 1 or preset.neighbours):
        raise LabError(
            f"'{preset.name}' changes or has neighbours, which eval/compare sees to; take another",
            EX_USAGE,
        )
    return Vm(
        kernel=args.kernel,
        vcpus=preset.vcpus,
        memory_mib=args.memory,
        shape=preset.phases if clock == VIRTUAL else preset.phases[0].shape,
        append=args.append,
        shares=args.share,
        clock=clock,
        virtual=virtual_time.Options(
            args.seed,
            args.ns_per_instruction,
            tuple(word for word in args.paravirt.split(",") if word),
        ),
        name=getattr(args, "name", ""),
    )


def _shell_line(words: list[str]) -> str:
    return words[0] if len(words) == 1 else shlex.join(words)


def _show(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _run(args: argparse.Namespace) -> int:
    wanted = [pair.rpartition(":") for pair in args.get]
    for guest, _, here in wanted:
        if not (guest and here):
            raise LabError("--get takes GUEST:HOST; name both paths", EX_USAGE)
    with _vm(args) as vm:
        before = vm.truth()
        result = vm.run(_shell_line(args.cmd), args.timeout, _show)
        if args.truth:
            print(truth.table(truth.difference(before, vm.truth())), file=sys.stderr)
        for guest, _, here in wanted:
            vm.get(guest, here)
        return result.rc


def _up(args: argparse.Namespace) -> int:
    if any(run["name"] == args.name for run in runs.live()):
        raise LabError(f"a VM called '{args.name}' is up; take another name", EX_USAGE)
    if not args.foreground:
        return _up_in_background(args)
    with _vm(args) as vm:
        print(f"{args.name} is up: {vm.kernel.release}, {vm.vcpus} vCPUs, {vm.accel}", flush=True)
        daemon.serve(vm, on_ready=lambda: None if os.isatty(1) else _let_go(vm))
    return 0


def _up_in_background(args: argparse.Namespace) -> int:
    """Start `up --foreground` in a session of its own, and wait until it lets go of our stdout."""
    server = subprocess.Popen(
        [sys.executable, VLAB, *sys.argv[1:], "--foreground"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        said = server.stdout.read()
    except KeyboardInterrupt:
        server.terminate()
        server.wait()
        raise
    _show(said)
    return 0 if said else server.wait()


def _let_go(vm: Vm) -> None:
    """Turn stdout and stderr to a log, so that whoever waits for their end can go on."""
    log = os.open(vm.folder / "daemon.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def _exec(args: argparse.Namespace) -> int:
    request = {
        "op": "exec",
        "cmd": _shell_line(args.cmd),
        "cwd": os.getcwd(),
        "timeout_s": args.timeout,
    }
    return daemon.ask(args.name, request, _show)[0]


def _shape(args: argparse.Namespace) -> None:
    daemon.ask(args.name, {"op": "shape", "shape": args.shape})


def _truth(args: argparse.Namespace) -> None:
    print(daemon.ask(args.name, {"op": "truth"})[1])


def _copy(args: argparse.Namespace) -> None:
    source, target = args.source, args.target
    if args.op == "get":
        target = os.path.abspath(target)
    else:
        source = os.path.abspath(source)
    daemon.ask(args.name, {"op": args.op, "source": source, "target": target})


def _down(args: argparse.Namespace) -> None:
    if bool(args.name) == args.all:
        raise LabError("name one VM, or say --all", EX_USAGE)
    names = [run["name"] for run in runs.live() if run["name"]] if args.all else [args.name]
    for name in names:
        with contextlib.suppress(LabError) if args.all else contextlib.nullcontext():
            daemon.down(name)


def _list(_: argparse.Namespace) -> None:
    for run in runs.live():
        print(f"{run['name'] or '-':<16} pid {run['pid']:<8} {run['path']}")


def _kernels(_: argparse.Namespace) -> None:
    default = kernels.choose(kernels.all(), None)
    for kernel in kernels.all():
        note = "sched_ext" if kernel.sched_ext else "no sched_ext"
        mark = ", default" if kernel == default else ""
        print(f"{kernel.release:<32} {note}{mark:<10} {kernel.vmlinuz.parent}")


def _shapes(_: argparse.Namespace) -> None:
    for name, (grammar, meaning) in shapes.GRAMMAR.items():
        only = " (simulated host only)" if name in shapes.SIMULATED else ""
        print(f"{grammar:<28} {meaning}{only}")
    print("Join terms with '+': floating:2+hog, packed:2+duty:2/2@0+duty:16/16@1.")
    print("\nBy name, as they are on this host:")
    for preset in presets.all_for(len(shapes.host_cores())).values():
        print(f"{preset.name:<20} {preset.vcpus:>2} vCPUs: {preset.meaning}")
        for phase in preset.phases:
            print(f"{'':<20} {phase.shape}")
    print("\nCORES, VCPUS: lists such as 0,2-3. Without a placement vCPUs float over all cores.")


def _clean(_: argparse.Namespace) -> None:
    for run in runs.clean():
        print(f"removed what run {run} left")
