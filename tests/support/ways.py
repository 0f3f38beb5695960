"""Recorded ways between nodes, which tests change and judge."""

from dataclasses import replace

from support.sentences import check_sentences


def change(run, record, where, **changes):
    """Change the records of that type for which `where` holds."""
    made = [replace(one, **changes) if where(one) else one for one in run.recording.of(record)]
    run.recording.put(record, made)


def of(subject, **fields):
    """Whether a record is of this node and has these values."""
    return lambda one: one.subject == subject and all(getattr(one, key) == fields[key] for key in fields)


def judged(run, *nodes):
    verdicts = [run.verdict(node) for node in nodes or ("n1", "n2")]
    check_sentences(verdicts)
    return verdicts
