"""Log a ranker, its parameters and a metric with MLflow, and load it again to score.

The model is precede's own JSON file, read by a `PythonModel` that MLflow logs as code (this file):
nothing is pickled.
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from precede import RankBoost, load
from precede.datasets import search_results
from precede.metrics import evaluate

try:
    import mlflow
except ImportError:
    mlflow = None

if mlflow is not None:

    class WeakRanker(mlflow.pyfunc.PythonModel):
        """A ranker in MLflow: rows of features in, scores out."""

        def load_context(self, context):
            self.model = load(context.artifacts["model"])

        def predict(self, context, model_input, params=None):  # noqa: ARG002
            return self.model.predict(model_input)

    mlflow.models.set_model(WeakRanker())  # what MLflow finds when it runs this file


def main():
    if mlflow is None:
        print("this example needs MLflow: pip install mlflow")
        return
    sample = search_results(40, features=5, informative=4, per_query=25, random_state=0)
    frame = pd.DataFrame(sample.X, columns=[f"feature {j}" for j in range(5)])
    train = sample.qid < 30
    model = RankBoost(n_estimators=30, learning_rate=0.1)
    model.fit(frame[train], sample.y[train], qid=sample.qid[train])
    scores = model.predict(frame[~train])
    ndcg = evaluate(sample.y[~train], scores, sample.qid[~train], metrics="ndcg@10").mean["ndcg@10"]
    with tempfile.TemporaryDirectory() as folder:
        mlflow.set_tracking_uri(f"sqlite:///{folder}/runs.db")
        mlflow.set_experiment(
            experiment_id=mlflow.create_experiment(
                "weak_rankers", artifact_location=f"{folder}/files"
            )
        )
        path = Path(folder) / "model.json"
        model.save(path)
        with mlflow.start_run():
            mlflow.log_params(model.get_params())
            mlflow.log_metric("ndcg_at_10", ndcg)
            logged = mlflow.pyfunc.log_model(
                name="ranker",
                python_model=__file__,
                artifacts={"model": str(path)},
                pip_requirements=["precede"],
                signature=mlflow.models.infer_signature(frame[~train], scores),
            )
        again = mlflow.pyfunc.load_model(logged.model_uri)
        same = np.array_equal(again.predict(frame[~train]), scores)
    assert same  # to the last bit
    print(f"ndcg@10 {ndcg:.4f}; the model that was logged gives the same scores: {same}")


if __name__ == "__main__":
    main()
