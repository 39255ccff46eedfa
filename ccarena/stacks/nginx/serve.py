"""Becomes nginx, which serves a file of zeros from a socket with the congestion control CCARENA_CONTROL.

nginx has no such setting. But it takes over the listening sockets that the variable NGINX names, as for its upgrades.
Connections inherit the congestion control of their listening socket.
"""

import os
import socket

CONF = """
user root;
worker_processes 1;
daemon off;
error_log stderr;
pid nginx.pid;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path temp;
    proxy_temp_path temp;
    fastcgi_temp_path temp;
    uwsgi_temp_path temp;
    scgi_temp_path temp;
    sendfile on;
    server {{ listen {address}:{port}; root .; }}
}}
"""
LARGEST_FILE = 255 << 20

address, port = os.environ["CCARENA_SENDER"], int(os.environ["CCARENA_PORT"])
with open("nginx.conf", "w") as conf:
    conf.write(CONF.format(address=address, port=port))
with open("zeros", "wb") as zeros:
    zeros.truncate(int(os.environ.get("CCARENA_BYTES", LARGEST_FILE)))
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, os.environ["CCARENA_CONTROL"].encode())
listener.bind((address, port))
listener.listen()
listener.set_inheritable(True)
os.environ["NGINX"] = f"{listener.fileno()};"
os.execvp("nginx", ["nginx", "-p", os.getcwd(), "-c", "nginx.conf"])
