"""Search for a controller: parameters, window rules or programs, judged on links and at last on unseen ones.

- `plan`: the arguments of a search and its rungs; `links`: what every candidate runs over;
- `expressions`: the grammar of rules; `genes`: what evolution changes; `templates`: what a search begins with;
- `programs`: candidates and how each becomes an entrant; `judge`: their runs, kept in a journal;
- `prepared`: a search whose arguments were checked;
- `evolution` and `generator`: where candidates come from; `run`: the loop; `verdict`: the comparison on unseen links;
- `api`: `ccarena.search`; `page`: its page.
"""
