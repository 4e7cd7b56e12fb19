"""Entry point of one attempt at a run. Parses the config before it imports slow modules.

    python -m workers.run --preset plan_path_duo --local [--seeds 0..7] [key=value ...]
    python -m workers.run --preset plan_path_duo --check [--json] [key=value ...]
    python -m workers.run CONFIG.toml --folder F --run ID --attempt N [--ingest-url U] [--home H]
                                      [--resume-from P [--fall-back] | --fork-from P]
    python -m workers.run --member RUN ATTEMPT FOLDER URL [--member ...] [--home H]

The first runs everything in this process, without Ray and without the web (with --seeds: one run per seed, all in this
process); the second checks what the first would need. The
third is the driver of a Ray job:
it connects to the cluster that RAY_ADDRESS names and imports no torch. The fourth trains runs that differ in their seed
only in the process of their common job. With an address for events, the token is in the run's folder (workers.storage.folders).
Exit status: 0 finished, stopped or paused; 1 failed, or a check failed; 2 the config or the arguments are wrong; 3 superseded.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from training_core.config.files import apply_overrides, parse_config, parse_overrides, read_preset, read_toml
from training_core.config.foreign import NO_FIELD, no_such_field
from training_core.config.kinds import AnyConfig
from training_core.config.permitted import checkpoint_below_home
from training_core.config.sweeps import SEED, parse_axes
from training_core.errors import ConfigError
from workers.storage.folders import FolderNotShared, RunFolder, unseen

USAGE_ERROR = 2


def main(words: Sequence[str] | None = None) -> int:
    """Run one attempt and return the exit status."""
    arguments, unknown = _parser().parse_known_intermixed_args(words)
    try:
        _refuse(unknown)
        if arguments.member:
            return _run_members(arguments)
        config = _config(arguments)
        seeds = _seeds(arguments, config)
        token = _token(arguments.ingest_url, arguments.folder, arguments.attempt)
    except (ConfigError, OSError, FolderNotShared) as error:
        _complain(error)
        return USAGE_ERROR
    if arguments.check:
        return _check(config, arguments)
    run = arguments.run or f"{config.run.name or 'run'}-{time.strftime('%Y%m%d-%H%M%S')}"
    home = arguments.home.expanduser().resolve()
    os.environ["TROUPE_HOME"] = str(home)  # data files are searched below it
    if seeds:
        return _run_seeds(arguments, run, home, seeds)
    from workers.driver.attempt import run_attempt  # slow import: only after the config is valid
    from workers.protocol import Attempt

    attempt = Attempt(
        config=config,
        run=run,
        number=arguments.attempt,
        folder=(arguments.folder or home / "runs" / run).expanduser().resolve(),
        home=home,
        resume_from=arguments.resume_from.expanduser().resolve() if arguments.resume_from else None,
        fork_from=_fork_from(arguments.fork_from, config, home),
        fall_back=arguments.fall_back,
        ingest_url=arguments.ingest_url,
        ingest_token=token,
    )
    return run_attempt(attempt, local=arguments.local)


def _run_seeds(arguments: argparse.Namespace, run: str, home: Path, seeds: Sequence[AnyConfig]) -> int:
    """Run one attempt per seed, all in this process; each has the run folder <home>/runs/<run>-s<seed>."""
    from workers.driver.seeds import run_seeds  # slow import: only after the configs are valid
    from workers.protocol import Attempt

    names = [f"{run}-s{config.run.seed}" for config in seeds]
    folders = [home / "runs" / name for name in names]
    if existing := next((folder for folder in folders if folder.exists()), None):
        _complain(ConfigError({"--run": f"{existing} exists; choose another id"}))
        return USAGE_ERROR
    attempts = [
        Attempt(
            config=config,
            run=name,
            number=arguments.attempt,
            folder=folder,
            home=home,
            fork_from=_fork_from(None, config, home),
        )
        for config, name, folder in zip(seeds, names, folders, strict=True)
    ]
    try:
        return run_seeds(attempts)
    except ConfigError as error:  # of the trainers, which exist before the first run starts
        _complain(error)
        return USAGE_ERROR


def _run_members(arguments: argparse.Namespace) -> int:
    """Run the attempts of --member, all in this process. Raises ConfigError, OSError, FolderNotShared."""
    home = arguments.home.expanduser().resolve()
    os.environ["TROUPE_HOME"] = str(home)
    folders = [Path(folder) for _, _, folder, _ in arguments.member]
    configs = [parse_config(read_toml(_text(folder / "config.toml", launched=True))) for folder in folders]
    from workers.driver.seeds import run_members  # slow import: only after the configs are valid
    from workers.protocol import Attempt

    tokens = [_token(url, Path(folder), int(number)) for _, number, folder, url in arguments.member]
    facts = zip(arguments.member, configs, folders, tokens, strict=True)
    return run_members(
        [
            Attempt(
                config=config,
                run=run,
                number=int(number),
                folder=folder,
                home=home,
                fork_from=_fork_from(None, config, home),
                ingest_url=url,
                ingest_token=token,
            )
            for (run, number, _, url), config, folder, token in facts
        ]
    )


def _token(url: str, folder: Path | None, attempt: int) -> str:
    """The token for the events of an attempt, which go to `url`; empty without an address. Raises OSError, FolderNotShared."""
    return RunFolder(folder.expanduser()).token(attempt) if url and folder else ""


def _seeds(arguments: argparse.Namespace, config: AnyConfig) -> list[AnyConfig]:
    """The config with each of --seeds; empty without the option. Raises ConfigError if they cannot share a process."""
    if not arguments.seeds:
        return []
    unused = ("resume_from", "fork_from", "ingest_url", "folder", "fall_back")
    wrong = {
        f"--{name.replace('_', '-')}": "belongs to one run; leave it out with --seeds"
        for name in unused
        if getattr(arguments, name)
    }
    if not (arguments.local or arguments.check):
        wrong["--seeds"] = "needs --local: on a server use troupe sweep launch"
    if wrong:
        raise ConfigError(wrong)
    values = parse_axes([f"{SEED}={arguments.seeds}"])[SEED]
    tree = config.model_dump(mode="json")
    configs = [parse_config(apply_overrides(tree, {SEED: seed})) for seed in values]
    if len({config.run.seed for config in configs}) < len(configs):
        raise ConfigError({"--seeds": "has the same value twice"})
    if reason := config.separate_seeds:
        raise ConfigError(
            {"--seeds": f"{reason} are not trained together; run each seed by itself: {SEED}={values[0]}"}
        )
    return configs


def _check(config: AnyConfig, arguments: argparse.Namespace) -> int:
    """Print what a run in this process would check. Returns 1 if a check failed."""
    from workers.preflight.checks import (
        Surroundings,
        checks_of,  # slow import: only after the config is valid
        failed,
        printed,
    )

    home = arguments.home.expanduser().resolve()
    os.environ["TROUPE_HOME"] = str(home)
    checks = checks_of(config, Surroundings(home, local=True))
    sys.stdout.write(printed(checks, as_json=arguments.json))
    return int(failed(checks))


def _fork_from(option: Path | None, config: AnyConfig, home: Path) -> Path | None:
    """The checkpoint named by the command line, or else by the config, which may name it below TROUPE_HOME."""
    named = config.fork_source
    if option is None and checkpoint_below_home(named):
        return (home / named).resolve()
    path = option or (Path(named) if named else None)
    return path.expanduser().resolve() if path else None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m workers.run", description="Run one attempt at a run.", allow_abbrev=False
    )
    parser.add_argument(
        "words", nargs="*", metavar="CONFIG.toml | key=value", help="config file and overrides"
    )
    parser.add_argument("--preset", help="a preset's name in place of a config file")
    parser.add_argument("--local", action="store_true", help="everything in this process, without Ray")
    parser.add_argument("--check", action="store_true", help="only check what a run in this process needs")
    parser.add_argument(
        "--seeds", default="", help="with --local: 0,1,2 or 0..4: a run with each seed, all in this process"
    )
    parser.add_argument(
        "--member",
        nargs=4,
        action="append",
        metavar=("RUN", "ATTEMPT", "FOLDER", "URL"),
        help="a run of a job that trains several; config.toml is in its folder, URL is where its events go",
    )
    parser.add_argument("--json", action="store_true", help="with --check: print JSON")
    parser.add_argument("--folder", type=Path, help="run folder (default: <home>/runs/<run>)")
    parser.add_argument("--run", default="", help="id of the run")
    parser.add_argument("--attempt", type=int, default=1, help="number of this launch of the run, from 1")
    parser.add_argument("--ingest-url", default="", help="where events go; without it they stay on disk")
    parser.add_argument("--resume-from", type=Path, help="checkpoint folder to resume from")
    parser.add_argument(
        "--fall-back",
        action="store_true",
        help="if that checkpoint is damaged, resume from the newest earlier one that is whole",
    )
    parser.add_argument("--fork-from", type=Path, help="checkpoint folder of another run to start from")
    default = os.environ.get("TROUPE_HOME", "var")
    parser.add_argument(
        "--home", type=Path, default=Path(default), help="data folder with base models and runs"
    )
    return parser


def _refuse(unknown: Sequence[str]) -> None:
    """Reject unknown options, which may be another library's flags. Raises ConfigError."""
    flags = [word.partition("=")[0] for word in unknown if word.startswith("-")]
    if flags:
        plain = "there is no such option; a field is set by name=value, without dashes"
        messages = {flag: no_such_field(flag) for flag in flags}
        raise ConfigError({flag: plain if text == NO_FIELD else text for flag, text in messages.items()})


def _config(arguments: argparse.Namespace) -> AnyConfig:
    """The config that the arguments name. Raises ConfigError, OSError, FolderNotShared."""
    files = [word for word in arguments.words if "=" not in word]
    overrides = parse_overrides([word for word in arguments.words if "=" in word])
    if len(files) + bool(arguments.preset) != 1:
        raise ConfigError({"": "name one config file or one --preset"})
    if arguments.preset:
        return parse_config(apply_overrides(read_preset(arguments.preset), overrides))
    text = _text(Path(files[0]), launched=bool(arguments.ingest_url))
    return parse_config(apply_overrides(read_toml(text), overrides))


def _text(config: Path, *, launched: bool) -> str:
    """The text of a config. Raises OSError; of a config that the server has written (`launched`), FolderNotShared."""
    try:
        return config.read_text()
    except FileNotFoundError as error:
        if launched:
            raise unseen(f"the server's folder {config.parent}", error) from error
        raise


def _complain(error: Exception) -> None:
    lines = error.fields.items() if isinstance(error, ConfigError) else [("", str(error))]
    for path, text in lines:
        sys.stderr.write(f"{path}: {text}\n" if path else f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
