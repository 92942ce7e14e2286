"""The house rules, so that nobody has to remember them."""

import ast
import functools
import graphlib
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import precede

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "precede"
MODULES = sorted(SOURCE.rglob("*.py"))


def _homes():
    """The module of every public name, as the stub of the package lists them."""
    tree = ast.parse((SOURCE / "__init__.pyi").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module]
    return {alias.name: node.module for node in imports for alias in node.names}


# Which folder or module of the package may import which; each may import itself. `risks` and
# `weak_rankers` never meet: what passes between them is in `engine`. Nothing imports the leaves.
BASE = {"engine", "judgments", "losses"}
CORE = BASE | {"risks", "weak_rankers", "model", "metrics", "boosting", "files"}
MAY_IMPORT = {
    "engine": set(),
    "losses": set(),
    "judgments": {"engine"},
    "risks": BASE,
    "weak_rankers": {"engine", "judgments"},
    "files": {"engine", "judgments"},
    "model": {"engine", "weak_rankers", "files"},
    "metrics": {"engine", "judgments"},
    "inference": {"engine", "judgments", "metrics"},
    "boosting": BASE | {"risks", "weak_rankers", "model", "metrics", "files"},
    "margin": CORE,
    "bounds": CORE | {"margin"},
    "plots": {"engine", "judgments", "metrics", "model"},
    "top": {"engine", "judgments", "plots"},
    "explain": {"engine", "judgments", "weak_rankers", "model"},
    "estimator": CORE | {"explain", "plots"},
    "algorithms": CORE | {"margin", "estimator", "explain"},
    "datasets": {"engine", "judgments"},
    "exports": {"judgments", "weak_rankers", "model", "explain"},
    "scorecard": {
        "engine",
        "judgments",
        "weak_rankers",
        "model",
        "explain",
        "exports",
        "estimator",
    },
    "testing": CORE | {"estimator", "datasets"},
    "report": CORE | {"estimator", "explain", "inference", "margin", "plots", "top"},
    "dask": CORE | {"estimator", "algorithms"},
    "cli": CORE | {"estimator", "explain", "exports", "inference", "report", "algorithms"},
}
LEAVES = {"cli", "dask", "testing"}


def name_of(path):
    relative = path.relative_to(SOURCE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


@functools.cache
def trees():
    return [(path, ast.parse(path.read_text(encoding="utf-8"))) for path in MODULES]


def functions(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def is_jitted(function):
    return any("njit" in ast.unparse(decorator) for decorator in function.decorator_list)


def lines_of(function):
    doc = ast.get_docstring(function, clean=False)
    return function.end_lineno - function.lineno + 1 - (doc.count("\n") + 1 if doc else 0)


def imported(tree):
    """Modules of the package that a module imports when it runs."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("precede."):
            yield node.module.split(".")[1], {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "precede":
            for alias in node.names:
                yield _homes().get(alias.name, alias.name).split(".")[0], {alias.name}
        else:
            yield from imported(node)


def ours_imported(tree):
    """Modules of the package that a module imports, and the names it takes from them."""
    found = {}
    for module, names in imported(tree):
        found.setdefault(module, set()).update(names)
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_function_fits_on_a_screen(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    long = [f for f in functions(tree) if lines_of(f) > 60 and not only_keeps_parameters(f)]
    assert [(f.name, lines_of(f)) for f in long] == []


def only_keeps_parameters(function):
    """Whether a function is the list ``self.name = name`` that scikit-learn wants."""
    names = {each.arg for each in function.args.args + function.args.kwonlyargs}
    kept = {f"self.{name} = {name}" for name in names}
    return {ast.unparse(line) for line in function.body} <= kept


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_function_takes_at_most_seven_positional_arguments(path):
    """Kernels are exempt: they take arrays and scalars only, so what they need is a list."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    many = [
        (function.name, names)
        for function in functions(tree)
        if not is_jitted(function)
        and len(names := [a.arg for a in function.args.args if a.arg not in ("self", "cls")]) > 7
    ]
    assert many == []


def test_kernels_are_cached_release_the_lock_and_nothing_else():
    """No fastmath, no parallel, no signature: measured reasons are in CONTRIBUTING.

    A kernel that divides in a loop may ask for NumPy's divisions, which do not raise: with a check
    for zero in it the processor takes one number at a time.
    """
    plain, inner = "njit(cache=True, nogil=True)", "njit(**INNER)"
    dividing = [each.replace(")", ", error_model='numpy')") for each in (plain, inner)]
    for path, tree in trees():
        for function in functions(tree):
            for decorator in map(ast.unparse, function.decorator_list):
                if "jit" in decorator:
                    assert decorator in (plain, inner, *dividing), (path, function.name)


def test_inner_kernels_are_called_by_kernels_only():
    """Python has no way to call them: a call would crash the process."""
    inner = {
        (path, function.name)
        for path, tree in trees()
        for function in functions(tree)
        if any("INNER" in ast.unparse(each) for each in function.decorator_list)
    }
    names = {name for _, name in inner}
    assert len(names) > 50
    for path, tree in trees():
        kernels = {id(n) for f in filter(is_jitted, functions(tree)) for n in ast.walk(f)}
        for node in ast.walk(tree):
            name = getattr(node, "id", None)
            if isinstance(node, ast.alias):
                assert node.name not in names, (path, node.name)
            assert id(node) in kernels or (path, name) not in inner, (path, name)
    tests = "".join(each.read_text(encoding="utf-8") for each in ROOT.glob("tests/**/*.py"))
    assert not {name for name in names if re.search(rf"\b{name}\b(?!\.py_func)", tests)}


def test_no_jitclass_no_thread_count_no_prange():
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"jitclass|set_num_threads|prange|fastmath=", text), path


def test_no_kernel_calls_a_kernel_of_another_file():
    """numba's cache does not notice a changed helper elsewhere and returns the old answer."""
    jitted = {}  # a package has several files
    for path, tree in trees():
        found = {function.name for function in functions(tree) if is_jitted(function)}
        jitted.setdefault(name_of(path), set()).update(found)
    for path, tree in trees():
        foreign = {
            name
            for module, names in ours_imported(tree).items()
            for name in names & jitted.get(module, set())
        }
        for function in filter(is_jitted, functions(tree)):
            called = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
            assert not called & foreign, (path, function.name, called & foreign)


def test_kernels_take_no_functions_and_build_no_kernels():
    for path, tree in trees():
        for function in filter(is_jitted, functions(tree)):
            inner = [node for node in ast.walk(function) if isinstance(node, ast.Lambda)]
            assert inner == [], (path, function.name)
            names = {argument.arg for argument in function.args.args}
            calls = {
                node.func.id
                for node in ast.walk(function)
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            }
            assert not names & calls, (path, function.name)


def test_only_the_engine_and_dask_reduce_across_machines():
    """Others use the reductions of `engine.exact`: `all_reduce_sum`, `all_reduce_max`, ..."""
    calling = {
        name_of(path)
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "all_reduce"
    }
    assert calling == {"engine"}  # in `dask` it is defined


def names_in(node):
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def sums_over_codes(function):
    """Whether a kernel adds to an entry chosen by a code: ``sums[column[row]] += ...``.

    Codes are named `codes` and pass through variables.
    """
    coded = {"codes"}
    given = [node for node in ast.walk(function) if isinstance(node, ast.Assign)]
    size = -1
    while size < len(coded):
        size = len(coded)
        for node in given:
            if names_in(node.value) & coded:
                coded |= {name for target in node.targets for name in names_in(target)}
    added = [node.target for node in ast.walk(function) if isinstance(node, ast.AugAssign)]
    return any(isinstance(each, ast.Subscript) and names_in(each.slice) & coded for each in added)


def test_only_histograms_sum_over_bins():
    """On a device the kernels are CUDA's, launched by `engine.cuda`."""
    found = {
        str(path.relative_to(SOURCE))
        for path, tree in trees()
        for function in filter(is_jitted, functions(tree))
        if sums_over_codes(function)
    }
    found.remove("weak_rankers/stumps.py")  # masses of pairs, whose two codes decide together
    assert {Path(each).parent.as_posix() for each in found} == {"engine"}


# How a kernel turns a number into an integer: a share as `exact.to_integers` does it, or a number
# of any size by a power of two in the two factors of `packing.factors`.
SHARE = rf"np\.int64\(np\.rint\(.+ \* {re.escape(repr(2.0**61))}\)\)"
BY_FACTORS = r"np\.int64\(np\.rint\((\w+)\[row\] \* (\w+_)?one \* (\w+_)?other\)\)"
# Those that round a number that is already multiplied, and what has nothing to do with a pull.
ROUNDING = {
    "engine/exact.py": "to_integers",
    "engine/quantization.py": "_widen",
    "engine/table.py": "integer_weights",
    "algorithms/convex_risk.py": "_products",
    "inference.py": "_randomize",
    "scorecard/card.py": "of",
}


def test_one_conversion_to_integers_and_one_rule_for_ties():
    """Numbers behind both are named once.

    Kernels call no function of another file, since numba's cache would not notice that it changed.
    So they write both out, always in the same way.
    """
    for path, tree in trees():
        if path.name in ("exact.py", "ties.py"):
            continue
        kernels = {id(n) for f in filter(is_jitted, functions(tree)) for n in ast.walk(f)}
        for node in ast.walk(tree):
            if isinstance(node, ast.BinOp) and id(node) not in kernels:
                written = ast.unparse(node)
                assert not re.fullmatch(r"2\.0 \*\* -?(31|40|61|62)", written), (path, written)


def test_kernels_convert_numbers_to_integers_in_one_way():
    found, other = 0, set()
    for path, tree in trees():
        for function in functions(tree):
            written = {
                ast.unparse(node)
                for node in ast.walk(function)
                if isinstance(node, ast.Call) and "np.rint(" in ast.unparse(node)
                and ast.unparse(node.func) == "np.int64"
            }  # fmt: skip
            right = {text for text in written if re.fullmatch(f"{SHARE}|{BY_FACTORS}", text)}
            found += len(right)
            if "np.rint(" in ast.unparse(function) and not right:
                other.add((str(path.relative_to(SOURCE)), function.name))
            assert not right or right == written, (path, function.name, written - right)
    assert found >= 10
    assert other == set(ROUNDING.items())
    device = (SOURCE / "engine" / "kernels.cu").read_text(encoding="utf-8")
    factors = r"(?:(?:\w+_)?one \* (?:\w+_)?other|2305843009213693952\.0)"
    assert len(re.findall(r"\brint\(", device)) == len(
        re.findall(rf"\(i64\)rint\(\w+\[\w+\] \* {factors}\)", device)
    )


def test_the_rule_for_ties_is_written_in_one_way():
    """In `ties.least_tied`, and as it is there in the kernels that need it."""
    rule = re.compile(r"(?P<most>[\w.()]+) - \((?P=most) >> 40\) - (256|TIE_UNITS)")
    found = {}
    for path, tree in trees():
        text = ast.unparse(tree)
        shifts = text.count(">> 40")
        if shifts:
            found[str(path.relative_to(SOURCE))] = (shifts, len(rule.findall(text)))
    assert {path for path, (shifts, rules) in found.items() if shifts != rules} == set()
    assert set(found) == {
        "algorithms/multilabel.py",
        "engine/histograms.py",
        "engine/exact.py",
        "weak_rankers/stumps.py",
    }


@pytest.mark.parametrize("folder", ["risks", "weak_rankers"])
def test_forms_and_prices_are_asked_what_they_can_do_not_what_they_are(folder):
    theirs = set(classes_of("losses")) | (
        set(classes_of("weak_rankers")) if folder == "risks" else set()
    )
    for path in (SOURCE / folder).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                asked = {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
                assert not asked & theirs, (path, ast.unparse(node))


def classes_of(name):
    """Names of the classes that a module or folder defines."""
    for path, tree in trees():
        if name_of(path) == name:
            yield from (node.name for node in tree.body if isinstance(node, ast.ClassDef))


def test_imports_follow_the_matrix():
    wrong = [
        f"{path.relative_to(SOURCE)} imports {module}"
        for path, tree in trees()
        if (here := name_of(path)) != "__init__"
        for module in ours_imported(tree)
        if module != here and module not in MAY_IMPORT[here]
    ]
    assert wrong == []


# Nobody asks for the class of these outside the folder they are defined in: what a risk, a loss,
# a family or a ranker can do is declared by its base class.
DECLARED = {"Family", "PairLoss", "Price", "WeakRanker", "Risk", "BoundRisk", "Search", "StepRule"}
FORMS = {"Polynomial", "Separable", "Smooth", "Spline"}


@functools.cache
def homes():
    """Where each class is defined that declares what it can do: its folder, and its module."""
    bases = {}
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = ([ast.unparse(base) for base in node.bases], path)
    wanted = DECLARED | FORMS
    while more := {c for c, (above, _) in bases.items() if set(above) & wanted} - wanted:
        wanted = wanted | more
    return {name: bases[name][1] for name in wanted}


def asked_for(node):
    """Classes that isinstance or issubclass, a comparison of types or a pattern asks for."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
        asked = node.args[1]
    elif isinstance(node, ast.MatchClass):
        asked = node.cls
    elif isinstance(node, ast.Compare) and ast.unparse(node.left).startswith("type("):
        asked = ast.Tuple(node.comparators)
    else:
        return set()
    return {each.id for each in ast.walk(asked) if isinstance(each, ast.Name)}


def classes_asked_for(path, tree):
    """Classes of others that a module asks for."""
    found = set().union(*map(asked_for, ast.walk(tree))) & set(homes())
    return {name for name in found if name_of(homes()[name]) != name_of(path)}


def test_nobody_asks_for_the_class_of_a_risk_loss_family_or_ranker():
    assert {"Stump", "Trees", "Power", "ScoreRisk", "SeparableRisk", "VoteStep"} <= set(homes())
    wrong = {
        str(path.relative_to(SOURCE)): asked
        for path, tree in trees()
        if (asked := classes_asked_for(path, tree))
    }
    assert wrong == {}


# Things that are asked for attributes which they may not have, and are none of ours: rows and
# labels as users give them, metrics, modules, estimators (which have fitted attributes or not).
FOREIGN = {
    "self.mapped",
    "X", "Y", "block", "column", "estimator", "kind", "metric", "model", "os", "raw", "regressor",
    "self", "self._map", "subject.X", "type(X)", "type(column)", "value", "y", "layout",
}  # fmt: skip
PROBED = re.compile(
    r"(.*\.)?(family|form|line|loss|price|r|ranker|rankers|risk|search|stump|term|tree)"
)


def test_nobody_probes_a_risk_loss_family_or_ranker_for_an_attribute():
    probed = {
        f"{path.relative_to(SOURCE)}: {ast.unparse(node)}"
        for path, tree in trees()
        if name_of(path) not in ("risks", "weak_rankers", "losses")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (
            (ast.unparse(node.func) == "hasattr" and ast.unparse(node.args[0]) not in FOREIGN)
            or (ast.unparse(node.func) == "getattr" and PROBED.fullmatch(ast.unparse(node.args[0])))
        )
    }
    assert probed == set()


def test_nobody_compares_the_name_of_a_risk_loss_family_or_ranker():
    """A name is for files and messages; what is asked of a kind is an attribute of it."""
    compared = {
        f"{path.relative_to(SOURCE)}: {ast.unparse(node)}"
        for path, tree in trees()
        if name_of(path) not in ("risks", "weak_rankers", "losses")
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        for side in (node.left, *node.comparators)
        if isinstance(side, ast.Attribute)
        and side.attr == "name"
        and (PROBED.fullmatch(ast.unparse(side.value)) or ast.unparse(side.value) in homes())
    }
    assert compared == set()


# What users give about rows, beside X.
ABOUT_ROWS = {
    "y", "qid", "group", "pairs", "grade", "grades", "label", "labels", "scores", "score",
    "sample_weight", "weight", "weights", "y_true", "y_score", "eta", "docid",
}  # fmt: skip
READERS = {"np.array", "np.asarray", "np.asanyarray", "np.atleast_1d", "np.ravel"}
OTHERS_READERS = {"check_array", "check_X_y", "check_consistent_length", "column_or_1d"}


def test_one_module_reads_what_users_give_about_rows():
    """`judgments` turns targets, queries, weights, scores and labels into arrays and checks them.

    (scikit-learn's `validate_data` reads X.)
    """
    found = {
        f"{path.relative_to(SOURCE)}: {function.name}: {ast.unparse(node)}"
        for path, tree in trees()
        if path.name != "judgments.py"
        for function in functions(tree)
        if not is_jitted(function)
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and (
            ast.unparse(node.func).split(".")[-1] in OTHERS_READERS
            or (
                ast.unparse(node.func) in READERS
                and isinstance(node.args[0], ast.Name)
                and node.args[0].id in ABOUT_ROWS & {each.arg for each in function.args.args}
            )
        )
    }
    # What LightGBM gives to an objective.
    assert found == {"dask/estimators.py: __call__: np.asarray(scores, np.float64)"}


# Parameters of these names are ours, so their types are known. (`weak_rankers` may be a regressor
# of
# anybody's.)
OURS = {
    "layout", "checkpoint", "ensemble", "estimator", "factors", "family", "history",
    "judgments", "loss", "model", "monitor", "monitors", "price", "pull", "ranker", "risk",
    "search", "state", "table", "task", "training",
}  # fmt: skip


def test_what_is_ours_is_not_annotated_any():
    found = {
        f"{path.relative_to(SOURCE)}: {function.name}({argument.arg})"
        for path, tree in trees()
        for function in functions(tree)
        for argument in [*function.args.args, *function.args.kwonlyargs]
        if argument.arg in OURS
        and argument.annotation is not None
        and ast.unparse(argument.annotation).split(" | ")[0] == "Any"
    }
    assert found == set()


def test_one_module_loops_over_rounds():
    """Only the loop applies stopping rules, calls callbacks and evaluates the monitors."""
    found = {"reason": set(), "Progress": set(), "compute_metrics": set()}
    for path, tree in trees():
        for node in ast.walk(tree):
            called = ast.unparse(node.func).split(".") if isinstance(node, ast.Call) else [""]
            if called[-1] in found and (len(called) > 1) != (called[-1] == "Progress"):
                found[called[-1]].add(str(path.relative_to(SOURCE)))
    assert found["Progress"] == {"boosting/loop.py"}
    assert found["reason"] == {"boosting/loop.py", "boosting/history.py"}  # which joins two rules
    # A client evaluates for its workers.
    assert found["compute_metrics"] == {"boosting/loop.py", "dask/estimators.py"}


def test_only_the_loop_and_trainers_made_of_trainers_boost_a_round():
    """Only the loop, and trainers made of trainers, call ``trainer.boost_round()``."""
    found = {
        (str(path.relative_to(SOURCE)), function.name)
        for path, tree in trees()
        for function in functions(tree)
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "boost_round"
    }
    assert found == {
        ("boosting/loop.py", "_loop"),
        ("boosting/trainer.py", "boost_round"),
        ("boosting/selection.py", "boost_round"),
    }


def test_the_matrix_is_complete_and_has_no_circle():
    assert {name_of(path) for path in MODULES} - {"__init__"} == set(MAY_IMPORT)
    assert len(MAY_IMPORT) <= 24
    graphlib.TopologicalSorter(MAY_IMPORT).prepare()  # raises CycleError
    assert not LEAVES & set().union(*MAY_IMPORT.values())


def test_nothing_private_of_others_is_imported():
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                top = node.module.split(".")[0]
                if top in ("precede", "__future__"):
                    continue
                parts = [*node.module.split("."), *(alias.name for alias in node.names)]
                assert not any(part.startswith("_") for part in parts), (path, node.module)


# Words of this package alone, and the word of the field or the glossary that replaces each.
BANNED = {
    "bend": "curvature", "bends": "curvature", "bent": "curvature", "bow": "curvature",
    "tax": "price slope", "taxes": "price slope", "paid": "loss sum", "ghost": "smoothing mass",
    "ghosts": "smoothing mass", "relive": "replay", "farewell": "timeout", "told": "say what it is",
    "watch": "monitor", "watched": "monitor", "watches": "monitor", "watching": "monitor",
    "unwatched": "not monitored", "dealt": "scatter", "peers": "workers",
    "place": "row, position, index or rank", "places": "rows, positions, indices or ranks",
}  # fmt: skip
# Plain English is free, such as "in place" or "takes its place".
IN_PROSE = set(BANNED) - {"paid", "told", "watch", "watches", "watching", "place", "places"}
PLACE = re.compile(
    r"(?<!\bin)(?<!\bno)(?<!\bone)(?<!\blast)(?<!\bthese)(?<!\btakes its)(?<!\btake their)"
    r"(?<!\btaken the)\s+places?\b(?!\))",
    re.I,
)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_words_are_those_of_the_glossary(path):
    names, prose, keys = set(), [], set()
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.NAME:
            names.add(token.string)
        elif token.type == tokenize.COMMENT or token.string[-3:] == '"""':
            prose.append(token.string)
        elif token.type == tokenize.STRING:  # of a dictionary, such as the facts of a report
            keys.add(token.string.strip("\"'"))
    assert not keys & BANNED.keys()
    wrong = {name for name in names if BANNED.keys() & name.lower().split("_")}
    text = "\n".join(prose)
    wrong |= {word for word in re.findall(r"\w+", text) if word.lower() in IN_PROSE}
    assert {word: BANNED.get(word.lower()) for word in wrong} == {}
    assert PLACE.findall(text) == []


def test_no_global_random_state():
    pattern = r"np\.random\.(seed|rand|randn|randint|choice|shuffle|permutation|normal)\b"
    for path in MODULES:
        assert not re.search(pattern, path.read_text(encoding="utf-8")), path


def test_estimators_only_assign_in_init():
    for path in (SOURCE / "algorithms").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                for function in functions(node):
                    if function.name == "__init__":
                        for line in function.body:
                            text = ast.unparse(line)
                            name = text.split(" = ")[0].removeprefix("self.")
                            assert text == f"self.{name} = {name}", (path, text)


def test_public_names_are_sorted_complete_and_on_the_api_page():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for name in _homes():
        thing = getattr(precede, name)
        assert f"`{name}`" in page, f"{name} is not on the API page"
        assert thing.__doc__, f"{name} has no docstring"
        assert ">>>" in thing.__doc__ or name in NO_EXAMPLE_NEEDED, f"{name} has no example"


# Bases and records whose use is shown where they are used.
NO_EXAMPLE_NEEDED = {"Columns", "Constants", "Features", "SearchResult", "Stumps", "WeakRanker"}


def test_what_users_need_is_shown_and_the_rest_is_importable():
    shown = set(dir(precede))
    assert {
        "RankBoost",
        "BaseRanker",
        "Judgments",
        "load",
        "evaluate",
        "compare",
        "export",
    } <= shown
    assert {"Logistic", "Power", "Stumps", "metrics", "inference", "files"} <= shown
    assert not shown & {"engine", "annotations", "lazy_loader", "provide_cache"}
    for name in shown:
        assert getattr(precede, name) is not None


def loaded_by(code):
    """Names of the modules that a fresh interpreter has loaded after running code."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_import_is_light():
    loaded = loaded_by("import precede")
    assert not loaded & {"numba", "sklearn", "matplotlib", "dask", "lightgbm", "pandas", "scipy"}


def test_fitting_loads_neither_matplotlib_nor_dask_nor_lightgbm():
    loaded = loaded_by("import precede; precede.RankBoost(n_estimators=1).fit([[0], [1]], [0, 1])")
    assert not loaded & {"matplotlib", "dask", "lightgbm", "jinja2", "typer"}


def test_only_the_drawing_engine_uses_matplotlib():
    """Elsewhere it is named in annotations alone, and axes are passed on, never drawn on."""
    users = set()
    for path in MODULES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        hints = {
            id(node)
            for block in ast.walk(tree)
            if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
            for node in ast.walk(block)
        }
        docs = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if id(node) in hints | docs:
                continue
            names = [alias.name for alias in getattr(node, "names", []) if hasattr(alias, "name")]
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names = [node.value]  # what `import_module` is given
            on_axes = isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("ax", "axes")
            if on_axes or any(re.match(r"(matplotlib|pylab)\b", name) for name in names):
                users.add(path.relative_to(SOURCE).as_posix())
    assert users == {"plots/drawing.py"}


def test_the_repository_names_no_registry_host():
    pattern = re.compile(
        r"https?://(?!www\.w3\.org)[^\s)\"'>]*(pypi|pythonhosted|npmjs|debian)", re.I
    )
    # Folders that hold files of the repository; others, such as .git and site, change any time.
    folders = [ROOT / name for name in ("src", "tests", "docs", "benchmarks", "examples", ".ci")]
    for path in [*ROOT.iterdir(), *(path for folder in folders for path in folder.rglob("*"))]:
        if path.suffix in (".py", ".md", ".toml", ".cfg", ".yml", ".sh"):
            assert not pattern.search(path.read_text(encoding="utf-8", errors="ignore")), path


def test_files_on_the_page_of_the_architecture_are_there():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z_0-9/]+(?:\.py|/))`", text)
    assert len(named) > 20
    homes = (SOURCE, SOURCE / "engine", SOURCE / "engine" / "histograms", ROOT)
    assert [name for name in named if not any((home / name).exists() for home in homes)] == ["io/"]


# The harness.
BENCHMARKS = {"measure", "papers", "run", "table"}


def test_a_benchmark_is_a_problem_a_peer_a_part_or_an_experiment():
    """Scripts stand in the folders that benchmarks/README.md describes."""
    folder = ROOT / "benchmarks"
    folders = {path.name for path in folder.iterdir() if path.is_dir()} - {"__pycache__"}
    assert folders == {"experiments", "figures", "peers", "problems", "results", "speed"}
    assert {path.stem for path in folder.glob("*.py")} == BENCHMARKS


def test_a_folder_of_tests_is_a_folder_of_the_package():
    folders = {path.name for path in (ROOT / "tests").iterdir() if any(path.glob("*.py"))}
    folders.discard("gpu")  # what needs a GPU stands apart
    assert folders <= {path.name for path in SOURCE.iterdir() if path.is_dir()}
