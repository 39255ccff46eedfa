# Fetches as many bytes as the flow is to carry, without end if it does not say.
set -eu
bytes=${CCARENA_BYTES:-1000000000000}
if [ -n "${CCARENA_RECEIVED:-}" ]; then
  mkdir received
  : >"$CCARENA_RECEIVED"
  ln -s "$CCARENA_RECEIVED" "received/$bytes"
  set -- --download received
fi
exec gtlsclient --quiet --exit-on-all-streams-close --max-data 64M --max-stream-data-bidi-local 64M "$@" \
  "$CCARENA_SENDER" "$CCARENA_PORT" "https://$CCARENA_SENDER:$CCARENA_PORT/$bytes"
