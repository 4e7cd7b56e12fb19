"""The dialects by the path of their requests, below an episode's address.

Another API is a module next to openai.py, with a Dialect for each of its paths, and a line here.
"""

from workers.gateway.answering import Dialect
from workers.gateway.dialects.openai import CHAT, TEXT

DIALECTS: dict[str, Dialect] = {"/v1/chat/completions": CHAT, "/v1/completions": TEXT}
