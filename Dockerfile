# The demo in a container, on CPUs:  docker build -t laptime . && docker run --rm -v "$PWD/out:/out" laptime
# Afterwards out/ has the HTML report and the patch. Any other command: docker run --rm laptime laptime doctor
FROM python:3.12-slim
WORKDIR /laptime
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY examples examples
# PyTorch for CPUs only: its CUDA build is several GB larger.
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu "torch>=2.4" "torchvision>=0.19" \
    && pip install --no-cache-dir '.[torch]' \
    && useradd --create-home demo \
    && install -d -o demo /out
USER demo
ENV LAPTIME_HOME=/tmp/laptime
CMD ["laptime", "tune", "--budget", "9m", "--patch", "/out/demo.laptime.patch", "-o", "/out/demo.html", "examples/resnet18.py"]
