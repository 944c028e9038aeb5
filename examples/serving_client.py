"""A client of `lossdial serve`, with nothing but Python's own library.

lossdial serve RUN --port 8000 &
python examples/serving_client.py http://127.0.0.1:8000 '[{"age": 61, "town": "Ulm"}]' clinic
"""

import json
import sys
import urllib.error
import urllib.request
from typing import Any


class Client:
    """A model at an address: rows as JSON in, decisions out."""

    def __init__(self, address: str, token: str | None = None, seconds: float = 30.0) -> None:
        self.address, self.seconds = address.rstrip("/"), seconds
        self.headers = {"Content-Type": "application/json"}
        if token is not None:
            self.headers["Authorization"] = f"Bearer {token}"

    def points(self) -> Any:
        """The operating points of the model."""
        return self._ask("/points")

    def predict(self, rows: list[dict[str, Any]], **setting: Any) -> Any:
        """Prediction, probability and score of each row.

        setting: point="clinic", or lam={"gamma": 0.1, "tau": 1}, threshold=0.3, prevalence=0.01.
        """
        return self._ask("/predict", {"rows": rows, **setting})

    def _ask(self, path: str, content: Any = None) -> Any:
        body = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(self.address + path, body, self.headers)
        try:
            with urllib.request.urlopen(request, timeout=self.seconds) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:  # the server says in a line what was wrong
            raise ValueError(f"{error.code}: {error.read().decode()}") from None


def main(address: str, rows: str, point: str = "default") -> None:
    answer = Client(address).predict(json.loads(rows), point=point)
    for prediction, probability in zip(answer["prediction"], answer["probability"], strict=True):
        print(f"{prediction}\t{probability:.4f}")
    print(answer["certificate"])


if __name__ == "__main__":
    main(*sys.argv[1:])
