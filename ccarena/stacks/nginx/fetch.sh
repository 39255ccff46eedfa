# Fetches the file over one connection, again and again unless the flow is one transfer.
set -eu
url="http://$CCARENA_SENDER:$CCARENA_PORT/zeros"
[ -n "${CCARENA_BYTES:-}" ] || url="$url?[1-1000]"
exec curl --silent --show-error --no-buffer --output "${CCARENA_RECEIVED:-/dev/null}" "$url"
