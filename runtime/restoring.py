"""Snapshot restore: starts a pipeline from a chosen snapshot (`-s`), its own older checkpoint or another snapshot.

Another snapshot becomes the newest checkpoint of the pipeline. Its files are copied (`NO_CLAIM`), so that the pipeline
does not depend on the snapshot, or the pipeline takes ownership of them (`CLAIM`) and deletes them like its own.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec

from tidegate.backends.savepoint import is_canonical, regrouped
from tidegate.backends.spi import StoredChunk
from tidegate.backends.storage import StorageFiles, decisions_of
from tidegate.connectors.spi import SupportsBranch
from tidegate.errors import ConfigError
from tidegate.ids import Branch, CheckpointId, OperatorUid
from tidegate.runtime.checkpoint.archive import Retained
from tidegate.runtime.checkpoint.manifest import Manifest, OperatorState, metadata_name
from tidegate.runtime.checkpoint.record import read_record
from tidegate.runtime.checkpoint.savepoint import StoredSnapshot, copied, is_snapshot, open_settled, renamed
from tidegate.runtime.operators.operator_list import written

if TYPE_CHECKING:
    from tidegate.runtime.job import Startup

__all__ = ["SnapshotRestore", "within"]


class SnapshotRestore:
    """Makes a snapshot the newest checkpoint of an acquired pipeline whose newest checkpoint is settled."""

    def __init__(self, startup: Startup) -> None:
        self._startup = startup
        self._program = startup.program
        self._pipeline = startup.pipeline
        self._storage = startup.storage

    def go_to(self, path: str) -> None:
        """Restore a retained checkpoint, by number or path, or another snapshot, by path or URL.

        Raises:
            ConfigError: the snapshot does not exist or cannot be restored, or a sink would write records twice.
            StateCorruptError: a file of the snapshot is missing or damaged.
            StateFormatError: a newer version wrote it.
        """
        record = self._pipeline.record
        names = {path, _plain(path)}
        target = next((known for known in record.retained if names & _names(known, self._storage.url)), None)
        if target is None and is_snapshot(path):
            self._take_over(open_settled(path))
            return
        if target is None:
            known = ", ".join(f"{r.run}/chk-{r.checkpoint}" for r in record.retained) or "none"
            raise ConfigError(
                f"{path!r} is not a savepoint or a retained checkpoint of pipeline {self._pipeline.id!r}; "
                f"expected a retained one ({known}), or the path or URL of a savepoint"
            )
        if target == record.retained[-1]:
            return
        later = [known for known in record.retained if known.checkpoint > target.checkpoint]
        self._ask_sinks(target.checkpoint, later)
        self._pipeline.open_branch(target)

    def replay_from(self, number: int) -> None:
        """Restore a settled checkpoint although sinks have committed since, because output of a later one is lost.

        0 is the start of the job.

        Raises:
            ConfigError: it is not retained, or no output is lost.
        """
        record, archive = self._pipeline.record, self._pipeline.archive
        settled = [known for known in record.retained if archive.settled(known)]
        if settled and settled[-1] == record.retained[-1]:
            raise ConfigError(
                f"--replay-from has no effect: all output of pipeline {self._pipeline.id!r} is visible; "
                "leave it out, or restore an older checkpoint with -s"
            )
        target = next((known for known in settled if known.checkpoint == number), None)
        if target is None and number != 0:
            known = ", ".join(str(each.checkpoint) for each in settled)
            raise ConfigError(
                f"--replay-from needs a checkpoint whose output is visible; got {number}; expected "
                f"{f'one of {known}' if known else '0, the beginning, because no settled checkpoint is retained'}"
            )
        self._startup.say(
            f"output committed after checkpoint {number} is written again, as requested by --replay-from"
        )
        if target is None:
            self._pipeline.go_back(None)
        else:
            self._pipeline.open_branch(target)

    def _take_over(self, snapshot: StoredSnapshot) -> None:
        record, found = self._pipeline.record, snapshot.manifest
        if found.lineage == record.lineage:
            later = [known for known in record.retained if known.checkpoint > found.checkpoint]
            self._ask_sinks(found.checkpoint, later)
        elif found.pipeline == self._pipeline.id and record.newest_id and (refusing := self._refusing()):
            raise ConfigError(
                f"the snapshot belongs to an earlier lineage of pipeline {found.pipeline!r}; the commits of sink {refusing[0]!r} "
                "in that lineage are unknown; restoring could write records twice; "
                "give the sink on_branch='append' to allow that"
            )
        found = self._program.matching(found).matched()
        snapshot = dataclasses.replace(snapshot, manifest=found)
        regroup = self._regrouping(found)
        claims = self._program.options.claim_mode == "CLAIM"
        operators, described = self._claimed(snapshot) if claims else (self._copied(snapshot), ())
        mine = msgspec.structs.replace(
            found,
            pipeline=self._pipeline.id,
            lineage=record.lineage,
            branch=Branch(record.branch + 1),
            run=self._startup.run,
            checkpoint=CheckpointId(record.newest_id + 1),
            parent=None,
            operators=tuple(self._with_lists(regroup(operator)) for operator in operators),
            claimed=described,
        )
        self._pipeline.archive.write(mine)
        self._pipeline.archive.mark_settled(Retained(mine.run, mine.checkpoint))
        self._pipeline.take_over(mine.checkpoint)

    def _with_lists(self, operator: OperatorState) -> OperatorState:
        """The operator with its large lists in files of this run, as in a checkpoint."""
        files = self._startup.files()
        lists = tuple(tuple(written(held, files) for held in lists) for lists in operator.lists)
        return msgspec.structs.replace(operator, lists=lists)

    def _copied(self, snapshot: StoredSnapshot) -> tuple[OperatorState, ...]:
        files = StorageFiles(snapshot.storage.blobs, "")
        return copied(snapshot.manifest.operators, files, self._startup.files())

    def _claimed(self, snapshot: StoredSnapshot) -> tuple[tuple[OperatorState, ...], tuple[str, ...]]:
        """The operators with their files in place, and the metadata files of the snapshot."""
        prefix = within(snapshot.storage.url, self._storage.url)
        if prefix is None:
            raise ConfigError(
                f"cannot claim {snapshot.storage.url}: it is outside the checkpoint storage {self._storage.url}, in which "
                "this pipeline deletes files; use execution.savepoint-restore-mode NO_CLAIM, or move the snapshot there"
            )
        self._refuse_what_others_keep(snapshot)
        files = StorageFiles(snapshot.storage.blobs, "")

        def claim(chunk: StoredChunk) -> StoredChunk:
            files.fetch(chunk)  # a damaged file must be found before this becomes the newest checkpoint
            return msgspec.structs.replace(chunk, name=f"{prefix}{chunk.name}")

        return renamed(snapshot.manifest.operators, claim), tuple(prefix + name for name in snapshot.names)

    def _refuse_what_others_keep(self, snapshot: StoredSnapshot) -> None:
        """Refuse files that another pipeline retains, because both would delete them."""
        found = snapshot.manifest
        if metadata_name(found.run, found.checkpoint) not in snapshot.names:
            return
        owner, _ = read_record(decisions_of(snapshot.storage), found.pipeline)
        if owner is not None and Retained(found.run, found.checkpoint) in owner.retained:
            raise ConfigError(
                f"cannot claim checkpoint {found.checkpoint} of run {found.run}: pipeline {found.pipeline!r} retains it and "
                "deletes it later; use execution.savepoint-restore-mode NO_CLAIM, or claim a native savepoint of it"
            )

    def _regrouping(self, found: Manifest) -> Callable[[OperatorState], OperatorState]:
        """A function that regroups canonical state to the max parallelism of the program."""
        free = {
            op.uid
            for op in found.operators
            if op.keyed and not op.by_key_group and all(map(is_canonical, op.keyed))
        }
        nodes = self._program.stream_graph(found, regrouping=free).nodes

        def regroup(operator: OperatorState) -> OperatorState:
            node = nodes.get(operator.uid)
            if node is None or operator.uid not in free or node.max_parallelism == operator.max_parallelism:
                return operator
            groups = node.max_parallelism
            return msgspec.structs.replace(
                operator, max_parallelism=groups, keyed=(regrouped(operator.keyed, groups),)
            )

        return regroup

    def _refusing(self) -> list[OperatorUid]:
        """The sinks that refuse to write records twice."""
        return [
            uid
            for uid, node in self._program.graph(None).nodes.items()
            if isinstance(node.payload, SupportsBranch) and node.payload.on_branch == "refuse"
        ]

    def _ask_sinks(self, target: CheckpointId, later: list[Retained]) -> None:
        refusing = self._refusing()
        record, archive = self._pipeline.record, self._pipeline.archive
        oldest = record.retained[0].checkpoint if record.retained else record.newest_id + 1
        if refusing and oldest > target + 1:
            raise ConfigError(
                f"the commits of sink {refusing[0]!r} in checkpoints {target + 1} to {oldest - 1} are unknown, "
                "because these checkpoints are no longer retained; restoring could write records twice; use a newer "
                "savepoint, or give the sink on_branch='append' to allow that"
            )
        manifests = [archive.load(known) for known in later] if refusing else []
        work = [c for manifest in manifests for u in manifest.unsettled for c in u.committables]
        for uid in refusing:
            mine = {c for c in work if c.uid == uid}
            if mine:
                raise ConfigError(
                    f"sink {uid!r} has committed {sum(c.records for c in mine)} records after checkpoint {target} "
                    f"({', '.join(sorted(c.describe for c in mine))}); restoring would write them twice; "
                    "give the sink on_branch='append' to allow that"
                )


def _plain(path: str) -> str:
    """A local path in the form of the storage's URL."""
    if "://" not in path:
        return os.path.abspath(path)  # noqa: PTH100  # resolving links would be I/O
    return unquote(path.removeprefix("file://")).rstrip("/")


def _names(retained: Retained, root: str) -> set[str]:
    place = f"{retained.run}/chk-{retained.checkpoint}"
    base = _plain(root)
    return {str(retained.checkpoint), place, f"{base}/{place}", f"{base}/{place}/_metadata"}


def within(place: str, root: str) -> str | None:
    """The relative path from `root` to a storage URL below it, as a prefix of file names; None if it is not below."""
    path, _, options = place.partition("?")
    base, _, expected = root.partition("?")
    if options != expected or not f"{path}/".startswith(f"{base.rstrip('/')}/"):
        return None
    below = unquote(path[len(base.rstrip("/")) :]).strip("/")
    return f"{below}/" if below else ""
