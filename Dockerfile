# The demo in a container, on CPUs; afterwards out/ has the HTML report and the patch:
#   mkdir -p out && docker build -t laptime . && docker run --rm -v "$PWD/out:/out" laptime
# Any other command: docker run --rm laptime laptime doctor
FROM python:3.12-slim
WORKDIR /laptime
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
COPY examples examples
# PyTorch for CPUs only: its CUDA build is several GB larger.
RUN pip install --no-cache-dir -c constraints.txt --index-url https://download.pytorch.org/whl/cpu torch torchvision \
    && pip install --no-cache-dir -c constraints.txt '.[torch]' \
    && useradd --uid 1000 --create-home demo \
    && install -d -o demo /out
USER 1000
ENV LAPTIME_HOME=/tmp/laptime
CMD ["laptime", "tune", "--budget", "9m", "--patch", "/out/demo.laptime.patch", "-o", "/out/demo.html", "examples/resnet18.py"]
