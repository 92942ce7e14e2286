"""Commands of ``precede``. Heavy modules are imported inside the commands that need them."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from precede.cli.console import (
    NOT_REACHED,
    guarded,
    open_streams,
    printable,
    progress_bar,
    say,
    set_up,
    write_json,
    write_rows,
)
from precede.cli.options import (
    Algorithm,
    AsJson,
    DataFile,
    EarlyStopping,
    Jobs,
    Metrics,
    ModelFile,
    Output,
    Reading,
    Relevant,
    Seed,
    Settings,
    Source,
    reads_data,
)

if TYPE_CHECKING:
    from precede.estimator import BaseRanker


_EPILOG = (
    "Exit codes: 0 success, 1 bad data or value, 2 usage error, 3 file not found or not writable, "
    "4 package missing, 5 --at-least not reached, 130 interrupted."
)

app = typer.Typer(
    name="precede",
    help="Learning to rank by boosting.",
    epilog=_EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Level = Annotated[float, typer.Option("--level", help="Confidence level of the intervals.")]


def main() -> None:
    """Run the command line."""
    open_streams()
    app()


def _version(wanted: bool) -> None:
    if wanted:
        import precede  # noqa: PLC0415

        print(precede.__version__)
        raise typer.Exit


@app.callback()
def _every_command(
    context: typer.Context,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
    version: Annotated[  # noqa: ARG001  (handled by its callback)
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    group = context.command
    known = group.commands if isinstance(group, TyperGroup) else {}
    command = known.get(context.invoked_subcommand or "")
    set_up([] if command is None else command.params, quiet=quiet)
    if quiet:
        os.environ["PRECEDE_QUIET"] = "1"


@app.command()
@guarded
def warmup(*, as_json: AsJson = False) -> None:
    """Compile what fits and their results need ahead of time, for container images and CI.

    All algorithms with each of their losses, weak rankers and kinds of data, on one thread and on
    several; predictions, metrics, explanations, reports, files. This takes some minutes. What only
    a cluster, a loss of your own, bounds or rounded scorecards need is compiled when called.
    The result is kept in the folder that NUMBA_CACHE_DIR names, or next to the package.
    """
    from precede.cli import warmup as warming  # noqa: PLC0415
    from precede.engine.compiling import cache_folder  # noqa: PLC0415

    rows = []
    with progress_bar("compiling", len(warming.STEPS)) as advance:
        for name, seconds in warming.warm_up():
            rows.append({"step": name, "seconds": round(seconds, 2)})
            advance()
    write_rows(rows, as_json=as_json)
    say(f"compiled code is kept in {cache_folder()}")


@app.command()
@guarded
def demo(
    folder: Annotated[Path, typer.Argument(help="Folder for the model.")] = Path("demo"),
    rounds: Annotated[
        int, typer.Option("--rounds", min=1, help="Number of boosting rounds.")
    ] = 200,
    *,
    as_json: AsJson = False,
) -> None:
    """Run a short demonstration on data that come with scikit-learn."""
    from precede.cli.demo import main as tour  # noqa: PLC0415

    if not as_json:
        tour(folder, rounds)
        return
    with redirect_stdout(sys.stderr):
        model = tour(folder, rounds)
    write_json({"model": str(model)})


@app.command()
@guarded
def algorithms(*, as_json: AsJson = False) -> None:
    """List the algorithms and their parameters."""
    from textwrap import fill  # noqa: PLC0415

    from precede.cli import fitting  # noqa: PLC0415
    from precede.cli.fitting import format_parameters  # noqa: PLC0415

    rows = []
    for name, each in fitting.algorithms().items():
        groups = fitting.group_parameters(each().get_params(deep=False))
        about = (each.__doc__ or "").strip().split("\n")[0]
        parameters = {key: value for group in groups.values() for key, value in group.items()}
        if not as_json and sys.stdout.isatty():
            print(fill(f"{name}: {about}", 80))
            for group, values in groups.items():
                print(fill(format_parameters(values), 80, initial_indent=f"  {group:<10}",
                           subsequent_indent=" " * 12))  # fmt: skip
            print()
        facts = parameters if as_json else format_parameters(parameters)
        rows.append({"algorithm": name, "what": about, "parameters": facts})
    if as_json or not sys.stdout.isatty():
        write_rows(rows, as_json=as_json)


@app.command()
@guarded
def metrics(*, as_json: AsJson = False) -> None:
    """List the metrics, how to write them and whether larger or smaller is better."""
    from textwrap import fill  # noqa: PLC0415

    from precede.metrics import REGISTRY  # noqa: PLC0415

    rows = [
        {"metric": each.name, "what": each.meaning, "written": each.written.format(each.name),
         "better": "greater" if each.greater_is_better else "less", "default": each.default or ""}
        for each in REGISTRY.values()
    ]  # fmt: skip
    if as_json or not sys.stdout.isatty():
        write_rows(rows, as_json=as_json)
        return
    for row in rows:
        default = f"; default {row['default']}" if row["default"] else ""
        print(fill(f"{row['metric']}: {row['what']}", 80))
        print(fill(f"written {row['written']}; {row['better']} is better{default}", 80,
                   initial_indent="  ", subsequent_indent="    "))  # fmt: skip


@app.command()
@reads_data
@guarded
def fit(
    data: DataFile,
    *,
    output: Output = "model.json",
    algorithm: Algorithm = "BoostedRanker",
    settings: Settings = None,
    valid: Annotated[
        list[str] | None,
        typer.Option("--valid", metavar="DATA", help="Evaluated after every round; repeatable."),
    ] = None,
    metric: Metrics = None,
    relevant: Relevant = None,
    early_stopping: EarlyStopping = None,
    out_of_core: Annotated[
        bool,
        typer.Option(
            "--out-of-core",
            help="Read DATA block by block into a table on disk and fit from there; run the "
            "command again to resume an interrupted fit.",
        ),
    ] = False,
    jobs: Jobs = None,
    as_json: AsJson = False,
    reading: Reading,
) -> None:
    """Fit a model to DATA and save it.

    Without --valid and n_estimators, the number of rounds (and of leaves) is chosen on held-out
    queries.

    precede fit train.txt -a RankBoost -s n_estimators=500 -s step=bound --valid vali.txt
    """
    from precede.cli import fitting  # noqa: PLC0415
    from precede.metrics.registry import with_relevant  # noqa: PLC0415
    from precede.model import check_model_name  # noqa: PLC0415

    check_model_name(output)
    names = with_relevant(metric, relevant) if metric else None
    parameters = fitting.parse_parameters(
        settings, n_jobs=jobs, eval_metric=names, early_stopping_rounds=early_stopping
    )
    model = fitting.make_estimator(algorithm, parameters)
    chosen = [] if valid or out_of_core else fitting.choose_sizes(model, parameters)
    if not valid:
        fitting.refuse_without_validation(parameters, metric, early_stopping, chosen)
    model.data_columns_ = reading.named()
    sets = [reading.read(name, beside=False) for name in valid or ()]
    if out_of_core:
        seconds, written = fitting.fit_from_disk(model, data, sets, reading.arguments(), output)
    else:
        train = reading.read(data)
        say(f"{data}: {train!r}")
        seconds = fitting.fit_chosen(model, train, sets, chosen)
        written = fitting.save_model(model, output)
    say(f"{type(model).__name__}: {fitting.describe_fit(model, seconds)}")
    if model.selection_ is not None:
        say(model.selection_.summary())
    if model.best_score_ is not None:
        say(fitting.best_round(model))
    if as_json and output != "-":
        write_json(fitting.fit_summary(model, seconds, written))
    if written != output:  # interrupted
        kept = "there is no round to keep" if written is None else f"its rounds are in {written}"
        raise KeyboardInterrupt(f"interrupted: {kept}, and {output} is not written")
    if output != "-":
        say(f"written to {output}")


@app.command()
@reads_data
@guarded
def predict(
    model: ModelFile,
    data: DataFile,
    *,
    output: Output = "-",
    style: Annotated[
        str,
        typer.Option("--as", help="scores (one per line), csv, tsv, or trec (a run)."),
    ] = "scores",
    tag: Annotated[str, typer.Option("--tag", help="Name of a TREC run.")] = "precede",
    jobs: Jobs = None,
    as_json: AsJson = False,
    reading: Reading,
) -> None:
    """Score every row of DATA; within a query, a higher score ranks first."""
    from precede.cli import evaluation  # noqa: PLC0415
    from precede.cli.inputs import read_for  # noqa: PLC0415

    wanted = "json" if as_json else style
    fitted, rows = read_for(model, data, reading)
    evaluation.predict(fitted, rows, output, style=wanted, tag=tag, jobs=jobs)


@app.command()
@reads_data
@guarded
def evaluate(
    source: Source,
    data: DataFile,
    *,
    metric: Metrics = None,
    relevant: Relevant = None,
    level: Level = 0.95,
    preset: Annotated[
        str | None,
        typer.Option("--preset", help="Use the conventions of lightgbm, sklearn or trec."),
    ] = None,
    by_query: Annotated[bool, typer.Option("--by-query", help="Print one row per query.")] = False,
    at_least: Annotated[
        list[str] | None,
        typer.Option("--at-least", metavar="METRIC=VALUE", help="Exit with code 5 if not reached."),
    ] = None,
    as_json: AsJson = False,
    reading: Reading,
) -> None:
    """Evaluate a model, scores or a run on DATA (or qrels), with confidence intervals."""
    from precede.cli import evaluation, inputs  # noqa: PLC0415
    from precede.metrics.registry import with_relevant  # noqa: PLC0415

    wanted = evaluation.requirements(at_least, relevant)
    task = inputs.read_task([source], data, reading)
    named = with_relevant(metric or (), relevant)
    asked = [*named, *(name for name in wanted if name not in named)] if metric else None
    rows, result = evaluation.metric_rows(
        task, asked, level=level, preset=preset, relevant=relevant
    )
    if by_query:
        if result is None:
            raise ValueError("the data are a single list; there is no query to show")
        write_rows(evaluation.query_rows(result), as_json=as_json)
    else:
        write_rows(rows, as_json=as_json, title=f"{source} on {data}")
    if result is not None:
        about = "" if by_query else f"{evaluation.about_intervals(rows, level)}; "
        say(f"{about}{result.policy}")
    missed = evaluation.unmet_requirements(rows, wanted)
    for message in missed:
        say(message)
    if missed:
        raise typer.Exit(NOT_REACHED)


@app.command()
@reads_data
@guarded
def compare(
    a: Source,
    b: Source,
    data: DataFile,
    *,
    metric: Metrics = None,
    relevant: Relevant = None,
    level: Level = 0.95,
    method: Annotated[
        str, typer.Option("--method", help="asymptotic or randomization.")
    ] = "asymptotic",
    seed: Seed = 0,
    as_json: AsJson = False,
    reading: Reading,
) -> None:
    """Compare two models, files of scores or runs on the same DATA (or qrels), paired."""
    from precede.cli import evaluation, inputs  # noqa: PLC0415
    from precede.inference import PLURALS  # noqa: PLC0415
    from precede.metrics import default_metrics, list_metrics  # noqa: PLC0415
    from precede.metrics.registry import with_relevant  # noqa: PLC0415

    task = inputs.read_task([a, b], data, reading)
    graded_queries = task.qid is not None and task.y is not None
    metrics = metric or (default_metrics("compare") if graded_queries else list_metrics(3))
    metrics = with_relevant(metrics, relevant)
    rows = evaluation.comparison_rows(task, metrics, level=level, method=method, seed=seed)
    drawn = evaluation.narrow(rows, level)
    write_rows(rows, as_json=as_json, title=f"{a} (a) and {b} (b)", drawn=drawn)
    units = f"{rows[0]['units']} {PLURALS[rows[0]['unit']]}"
    say(f"difference is a minus b; {100 * level:g} % intervals, paired over {units}")


@app.command()
@reads_data
@guarded
def explain(
    model: ModelFile,
    data: DataFile,
    *,
    query: Annotated[
        str | None, typer.Option("--query", help="Query to explain; default: the first.")
    ] = None,
    pair: Annotated[
        tuple[str, str] | None,
        typer.Option("--pair", help="Explain why the first document ranks above the second."),
    ] = None,
    shape: Annotated[
        str | None,
        typer.Option("--shape", metavar="NAME", help="Print the shape function of one feature."),
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Features shown per document.")] = 5,
    most: Annotated[
        int | None,
        typer.Option(
            "--rows", min=1, help="Documents shown; default: all of a query, 10 of a single list."
        ),
    ] = None,
    as_json: AsJson = False,
    reading: Reading,
) -> None:
    """Explain the ranking, feature by feature."""
    from precede import load  # noqa: PLC0415
    from precede.cli import evaluation  # noqa: PLC0415

    fitted = load(model)
    if shape is not None:
        function = fitted.shape_function(shape)
        write_json(function.to_dict()) if as_json else print(printable(str(function), lines=True))
        return
    rows = evaluation.rows_of_query(reading.with_roles_of(fitted).read(data), query)
    if pair is not None:
        explained = evaluation.explain_documents(fitted, rows, *pair)
        if as_json:
            write_json({"documents": pair, **explained.to_dict()})
        else:
            say(evaluation.describe_pair(explained, *pair))
            write_rows(evaluation.contribution_rows(explained, *pair), as_json=False)
        return
    limit = most or (10 if rows.qid is None else None)
    found = evaluation.explained_documents(fitted, rows, top, limit)
    if len(found) < len(rows):
        say(f"the first {len(found)} of {len(rows)} rows; --rows N shows more or fewer")
    for row in found if not as_json else ():
        parts = row.pop("contributions").items()
        row["contributions"] = ", ".join(f"{name} {value:+.3g}" for name, value in parts)
    write_rows(found, as_json=as_json)


@app.command()
@reads_data
@guarded
def report(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL... DATA",
            help="Models, files of scores or TREC runs, the main one first, then the DATA (or "
            "qrels) to evaluate them on.",
        ),
    ],
    *,
    output: Output = "report.html",
    style: Annotated[
        str | None,
        typer.Option("--as", help="html, markdown or json; default: detected from FILE."),
    ] = None,
    train: Annotated[
        str | None,
        typer.Option("--train", metavar="FILE", help="Training data, for comparison with DATA."),
    ] = None,
    slices: Annotated[
        list[str] | None,
        typer.Option("--slice", metavar="COLUMN", help="Slice DATA by this column; repeatable."),
    ] = None,
    item: Annotated[str | None, typer.Option("--item", help="Word for a row: borrower.")] = None,
    good: Annotated[
        str | None, typer.Option("--good", help="Word for those that should rank first: repaid.")
    ] = None,
    query: Annotated[str | None, typer.Option("--query", help="Word for a query.")] = None,
    metric: Metrics = None,
    relevant: Relevant = None,
    level: Level = 0.95,
    title: Annotated[str | None, typer.Option("--title", help="Title of the page.")] = None,
    date: Annotated[
        str | None, typer.Option("--date", help="Date to print; default: none.")
    ] = None,
    as_json: AsJson = False,
    reading: Reading,
) -> None:
    """Write a report: how good models are, which is better, where they err and why.

    precede report model.json test.txt -o report.html

    precede report new.json old.json test.txt --train train.txt -o report.md
    """
    from precede.cli import evaluation  # noqa: PLC0415
    from precede.files.streams import require_folder  # noqa: PLC0415

    *sources, data = files
    if not sources:
        raise ValueError(f"report needs a model and data, and got {data!r} alone; name both")
    chosen = evaluation.report_format(output, "json" if as_json and output == "-" else style)
    require_folder(output)
    made = evaluation.make_report(
        sources, data, train, reading, slices=slices, item=item, good=good, query=query,
        metrics=metric, relevant=relevant, level=level, title=title, date=date,
    )  # fmt: skip
    evaluation.write_report(made, output, chosen)
    if output != "-":
        say(f"written to {output}: {made!r}")
        if as_json:
            write_json({"model": sources[0], "data": data, "format": chosen, "file": output})


@app.command()
@guarded
def export(
    model: ModelFile,
    output: Annotated[str, typer.Argument(metavar="FILE", help="Output file.")],
    *,
    format: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="json, onnx, xgboost, xgboost-dump, elasticsearch, ltr-features, ltr-model, "
            "ranklib, solr, solr-features, sql, python or c; default: detected from .onnx, .sql, "
            ".py and .c.",
        ),
    ] = None,
    dialect: Annotated[
        str | None,
        typer.Option(
            "--dialect",
            help="For sql: ansi, duckdb, mariadb, mysql, postgresql or sqlite; default: ansi.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", "-s", metavar="NAME=VALUE", help="An option of the format; repeatable."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Export a model for serving; refused if its scores would differ."""
    from precede import export as write  # noqa: PLC0415
    from precede import load  # noqa: PLC0415
    from precede.cli import fitting  # noqa: PLC0415
    from precede.exports.write import format_of  # noqa: PLC0415

    chosen = format or format_of(output)
    options = fitting.parse_parameters(settings, dialect=dialect)
    write(load(model), output, chosen, **options)
    if output != "-":
        say(f"written to {output}")
        if as_json:
            write_json({"model": model, "format": chosen, "file": output})


@app.command()
@reads_data
@guarded
def convert(
    data: DataFile,
    output: Annotated[
        str, typer.Argument(metavar="FILE", help="Output file; - is standard output.")
    ],
    *,
    style: Annotated[
        str | None,
        typer.Option(
            "--to", help="letor, csv, tsv, parquet or qrels; default: detected from FILE."
        ),
    ] = None,
    query_file: Annotated[
        bool, typer.Option("--query-file", help="Sort by query and write FILE.query (LightGBM).")
    ] = False,
    as_json: AsJson = False,
    reading: Reading,
) -> None:
    """Convert DATA to another format; pairs and weights go to separate files if necessary."""
    from precede.cli import evaluation  # noqa: PLC0415

    written = evaluation.convert(reading.read(data), output, style, query_file=query_file)
    for name in written:
        say(f"written to {name}")
    if as_json and output != "-":
        write_json({"files": written})


def _fit_and_save(model: BaseRanker, train: Any, output: str) -> None:
    from precede.cli import fitting  # noqa: PLC0415

    fitting.fit(model, train)
    if fitting.save_model(model, output) != output:
        raise KeyboardInterrupt(f"interrupted: {output} is not written")
    say(f"written to {output}")


@app.command()
@reads_data
@guarded
def tune(
    data: DataFile,
    *,
    algorithm: Algorithm = "BoostedRanker",
    grid: Annotated[
        list[str] | None,
        typer.Option("--grid", "-g", metavar="NAME=A,B,...", help="Values to try; repeatable."),
    ] = None,
    settings: Settings = None,
    metric: Annotated[
        str | None, typer.Option("--metric", "-m", help="Metric to optimize.")
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option("--trials", min=1, help="Random candidates; default: 27, or the whole grid."),
    ] = None,
    log: Annotated[
        str | None, typer.Option(metavar="FILE", help="Log of all fits, to resume a search.")
    ] = None,
    cv: Annotated[int, typer.Option("--folds", min=2, help="Number of folds.")] = 5,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Refit with the best parameters and save.",
        ),
    ] = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    as_json: AsJson = False,
    reading: Reading,
) -> None:
    """Cross-validate parameters over queries: a grid, or a search by successive halving.

    Without --grid, or with --trials, candidates are drawn at random, and the better third of them
    is tried on more folds. The number of rounds is chosen.

    precede tune train.txt --log search.jsonl -o best.json

    precede tune train.txt -g learning_rate=0.1,0.3,1 -g n_estimators=100,300 -o best.json
    """
    from precede.cli import fitting  # noqa: PLC0415
    from precede.files.streams import STANDARD  # noqa: PLC0415
    from precede.model import check_model_name  # noqa: PLC0415

    check_model_name(output or STANDARD)
    fixed = fitting.parse_parameters(settings) | ({} if jobs is None else {"n_jobs": jobs})
    base = fitting.make_estimator(algorithm, fixed)
    values = None if grid is None else fitting.values_to_try(base, grid)
    train = reading.read(data)
    say(f"{data}: {train!r}")
    named = metric or fitting.default_metric(train)
    rows, best, facts = fitting.tune(
        base, train, values, cv=cv, metric=named, seed=seed, log=log, source=data, output=output,
        trials=trials or (27 if values is None else None),
    )  # fmt: skip
    write_rows(rows, as_json=as_json)
    say(facts)
    if output is not None:
        model = fitting.make_estimator(algorithm, {**fixed, **best})
        model.data_columns_ = reading.named()
        _fit_and_save(model, train, output)
