"""ranx: metrics only, with its objects already built."""

import ranx as library


def prepare(y, scores, qid):
    """The dictionaries of dictionaries that ranx reads, as its own objects."""
    grades, run = {}, {}
    for place, (query, grade, score) in enumerate(
        zip(qid.tolist(), y.astype(int).tolist(), scores.tolist(), strict=True)
    ):
        grades.setdefault(f"q{query}", {})[f"d{place}"] = grade
        run.setdefault(f"q{query}", {})[f"d{place}"] = score
    return library.Qrels(grades), library.Run(run)


def evaluate(prepared, metrics):
    return library.evaluate(*prepared, metrics)
