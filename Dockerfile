# Images of the wheel that is in dist/: from `make wheel`, or from a release.
#
#   docker build --tag ccarena .
#   docker run --rm ccarena compete cubic bbr pilot acct
#
# Linux TCP, QUIC over emulated links and the emulator need the machine's kernel and root:
#
#   docker build --target kernel --tag ccarena-kernel .
#   docker run --rm --privileged ccarena-kernel eval cubic --backend kernel --link-sets constant --seeds 1 --duration-s 5
#
# `make image-check` runs these steps in a clean folder, without Docker.
FROM debian:bookworm-slim AS base
RUN apt-get update \
  && apt-get install --yes --no-install-recommends python3 python3-venv \
  && rm -rf /var/lib/apt/lists/*
COPY dist/*.whl /opt/wheel/
RUN python3 -m venv /opt/ccarena \
  && /opt/ccarena/bin/pip install --no-cache-dir /opt/wheel/*.whl \
  && rm -r /opt/wheel
ENV PATH=/opt/ccarena/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# The programs link libelf, zlib and libbpf statically; iperf3 is another sender of traffic.
FROM base AS kernel
RUN apt-get update \
  && apt-get install --yes --no-install-recommends iperf3 iproute2 \
  && rm -rf /var/lib/apt/lists/*
WORKDIR /work
ENTRYPOINT ["ccarena"]
CMD ["doctor"]

FROM base AS runtime
RUN useradd --create-home ccarena
USER ccarena
WORKDIR /home/ccarena
ENTRYPOINT ["ccarena"]
CMD ["doctor"]
