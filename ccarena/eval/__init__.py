"""Scores and pictures, one folder per question:

| folder      | question                                                        | command             |
|-------------|-----------------------------------------------------------------|---------------------|
| `heldout`   | How good is a policy, beside heuristics, on links it never saw? | `ccarena eval`      |
| `compete`   | What do schemes take from each other on one bottleneck?         | `ccarena compete`   |
| `fidelity`  | How far is the simulator from recorded or live kernel TCP?      | `ccarena fidelity`  |
| `reproduce` | Do the papers' claims hold? (`suites` holds them)               | `ccarena reproduce` |
| `leaderboard` | Who is best on many links, and how sure is that?              | `ccarena leaderboard` |
| `theory`    | Which rates are fair, and what do fluid models predict?         |                     |

`measure` defines every figure and shows it.
"""
