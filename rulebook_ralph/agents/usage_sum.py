"""Tokens of several turns or models, added up."""

from rulebook_ralph.core.evidence import Usage


def added(*usages: Usage) -> Usage:
    return Usage(
        input_tokens=sum(one.input_tokens for one in usages),
        output_tokens=sum(one.output_tokens for one in usages),
        cache_read_tokens=sum(one.cache_read_tokens for one in usages),
        cache_write_tokens=sum(one.cache_write_tokens for one in usages),
    )
