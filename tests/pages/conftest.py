"""A browser without a window, shared by this folder's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ccarena.pages.browser import Browser, find_browser


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if find_browser() is None:
        pytest.skip("NO BROWSER: pages are not looked at (apt-get install chromium)")
    with Browser() as started:
        yield started
