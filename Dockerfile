# The demo in a container, on CPUs; afterwards out/ has the HTML report and the patch:
#   mkdir -p out && docker build -t laptime . && docker run --rm -v "$PWD/out:/out" laptime
# PyTorch's default build is for CUDA and several GB larger: --build-arg TORCH_INDEX=... with the address of its wheels
# for CPUs, which its installation page tells.
# Any other command: docker run --rm laptime laptime doctor
FROM python:3.12-slim
WORKDIR /laptime
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
COPY examples examples
ARG TORCH_INDEX=""
RUN PIP_INDEX_URL="$TORCH_INDEX" pip install --no-cache-dir -c constraints.txt torch torchvision \
    && pip install --no-cache-dir -c constraints.txt '.[torch]' \
    && useradd --uid 1000 --create-home demo \
    && install -d -o demo /out
USER 1000
ENV LAPTIME_HOME=/tmp/laptime
CMD ["laptime", "tune", "--budget", "9m", "--patch", "/out/demo.laptime.patch", "-o", "/out/demo.html", "examples/resnet18.py"]
