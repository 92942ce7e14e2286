"""From votes on pairs to a leaderboard, its page, and the pairs to vote on next."""

import tempfile
from pathlib import Path

from precede import Leaderboard
from precede.files import read_votes

TEXT = """model_a,model_b,winner,judge
aria,bolt,model_a,ann
bolt,coda,tie,ann
coda,aria,model_b,ann
aria,bolt,model_b,ben
bolt,coda,model_a,ben
coda,aria,model_a,ben
aria,coda,model_a,cid
bolt,aria,model_b,cid
coda,bolt,tie (bothbad),cid
aria,delta,model_a,cid
"""

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "votes.csv")
    path.write_text(TEXT)
    board = Leaderboard(scale="elo").fit(read_votes(path), items=["echo"])
    board.to_html(Path(folder, "board.html"), title="Assistants")

for row in board.rows():
    print(f"{row['item']:6} {row['strength']:8.0f}  ranks {row['rank_low']} to {row['rank_high']}")
for item, why in board.unranked_.items():
    print(f"{item}: {why}")
print("ask next:", ", ".join(" or ".join(pair) for pair in board.next_pairs(2, goal="first")))
