"""The arena as a web page: the simulator as WebAssembly, in one file that needs no server and no network.

`make web` builds `assets/` from `crates/ccarena-web`:

| file          | what it is                                                                                     |
|---------------|------------------------------------------------------------------------------------------------|
| `play.html`   | the page, with everything in it                                                                |
| `cell.js`     | the script by which other pages run one scenario; its first comment says how                   |
| `engine.js`   | the simulator for `cell.js`                                                                    |
| `engine.wasm` | the simulator                                                                                  |
"""

from __future__ import annotations

from ccarena.play.page import assets, page_of, write

__all__ = ["assets", "page_of", "write"]
