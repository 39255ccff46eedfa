"""Assessment of a congestion control by the questions of RFC 9743 (BCP 133), each a suite in `questions/`.

A question is a suite of `ccarena reproduce` whose flows of scheme `entrant` are the entrant's. The `paper` of a claim
is its criterion.
"""
