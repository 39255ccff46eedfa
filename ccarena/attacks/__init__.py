"""Attacks: searches for the links on which an entrant does worst, and their replay.

| module     | holds                                                                                   |
|------------|-----------------------------------------------------------------------------------------|
| `space`    | the links that are searched: parameters and shapes with their limits                     |
| `case`     | one link of a space, as data and as a scenario                                           |
| `harms`    | the table of harms: a definition, a threshold and a function each                        |
| `trial`    | runs of cases in parallel, each kept in the folder's journal                             |
| `archive`  | the worst case of each harm and mechanism (MAP-Elites)                                   |
| `search`   | the loop: random cases, CMA-ES for each harm, changes of the archive's cases             |
| `simplify` | a counterexample with fewest steps, the shortest time and plain parameters               |
| `finds`    | counterexamples as files: scenarios, and the list that can be replayed                   |
| `page`     | the page                                                                                 |
| `api`      | `ccarena.attack`, and the replay of a list                                               |
"""
