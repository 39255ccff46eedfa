# Serves as many bytes as a path says, with a certificate made now.
set -eu
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=stack -days 2 \
  -keyout key.pem -out cert.pem 2>/dev/null
exec gtlsserver --quiet --cc "$CCARENA_CONTROL" --max-dyn-length 1000G "$CCARENA_SENDER" "$CCARENA_PORT" key.pem cert.pem
