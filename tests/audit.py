"""Known holes in what the tests install, without the Internet: make audit ADVISORIES=folder.

pip-audit asks a server on the loopback interface, which answers from the folder: advisories in OSV's format, one a file
(.yaml, .json: a copy of PyPA's advisory-database, an export of OSV), or Safety DB's insecure.json, or both.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

Advisories = dict[str, list[dict]]


def read(folder: Path) -> Advisories:
    """What is known of each package, in OSV's format."""
    found: Advisories = defaultdict(list)
    for path in sorted(p for p in folder.rglob("*") if p.suffix in (".json", ".yaml")):
        for advisory in [*safety(path)] if path.name == "insecure.json" else [load(path)]:
            for name in {canonicalize_name(a["package"]["name"]) for a in concerned(advisory)}:
                found[name].append(advisory)
    return found


def load(path: Path) -> dict:
    if path.suffix == ".json":
        return json.loads(path.read_text())
    import yaml

    # A C loader is ten times as fast; the base one leaves dates as they are written.
    return yaml.load(path.read_text(), getattr(yaml, "CBaseLoader", yaml.BaseLoader))


def concerned(advisory: dict) -> list[dict]:
    return [a for a in advisory.get("affected", []) if a.get("package", {}).get("ecosystem") == "PyPI"]


def safety(path: Path) -> Iterator[dict]:
    """Safety DB says which versions, not why."""
    insecure = json.loads(path.read_text())
    written = datetime.fromtimestamp(insecure.pop("$meta")["timestamp"], timezone.utc).isoformat()
    for name, versions in insecure.items():
        for spec in versions:
            affected = {"package": {"name": name, "ecosystem": "PyPI"}, "specifier": spec}
            yield {"id": f"SafetyDB-{name}{spec}", "modified": written, "affected": [affected]}


def holes(advisories: Advisories, name: str, version: str) -> list[dict]:
    """The advisories that concern this version. One that cannot be understood does."""
    name = canonicalize_name(name)
    return [
        advisory
        for advisory in advisories.get(name, [])
        if any(canonicalize_name(a["package"]["name"]) == name and hit(a, version) for a in concerned(advisory))
    ]


def hit(affected: dict, version: str) -> bool:
    try:
        if "specifier" in affected:
            return SpecifierSet(affected["specifier"]).contains(version, prereleases=True)
        ranges = [r["events"] for r in affected.get("ranges", []) if r["type"] == "ECOSYSTEM"]
        return version in affected.get("versions", []) or any(within(events, Version(version)) for events in ranges)
    except (InvalidSpecifier, InvalidVersion):
        return True


def within(events: Iterable[dict[str, str]], version: Version) -> bool:
    """Events are {"introduced" | "fixed" | "last_affected": version}, in any order."""
    inside = False
    for at, kind in sorted((Version(v if v != "0" else "0.dev0"), k) for event in events for k, v in event.items()):
        if version > at or version == at and kind != "last_affected":
            inside = kind == "introduced"
    return inside


class Server(BaseHTTPRequestHandler):
    advisories: Advisories

    def do_POST(self) -> None:
        query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        found = holes(self.advisories, query["package"]["name"], query["version"])
        answer = json.dumps({"vulns": found} if found else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


def summary(advisories: Advisories) -> Iterator[str]:
    """How many of each source, and how old it is."""
    dates = defaultdict(list)
    for advisory in {a["id"]: a for entries in advisories.values() for a in entries}.values():
        dates[advisory["id"].partition("-")[0]].append(advisory["modified"])
    for source in sorted(dates):
        yield f"{source}: {len(dates[source])} advisories, the last of {max(dates[source])[:10]}"


def main(folder: str, *command: str) -> int:
    Server.advisories = advisories = read(Path(folder))
    print(*summary(advisories), sep="\n", flush=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        environment = {**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        code = subprocess.run([*command, "--vulnerability-service=osv", "--osv-url", url], env=environment).returncode
        server.shutdown()
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
