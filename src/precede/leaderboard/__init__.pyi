from .board import Leaderboard as Leaderboard
