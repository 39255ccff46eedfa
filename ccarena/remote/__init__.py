"""Scenarios between two machines (`ccarena remote`), and what is learnt of the path between them (`ccarena fit`)."""
