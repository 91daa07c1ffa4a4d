# The endpoint and its page. It needs keys in SUREENOUGH_SERVE_KEYS to listen beyond the container.
#   docker build -t sureenough . && docker run -p 8000:8000 -e SUREENOUGH_SERVE_KEYS=… -e SUREENOUGH_URL=http://vllm:8000/v1 sureenough
FROM python:3.12-slim
WORKDIR /srv/sureenough
COPY . .
RUN pip install --no-cache-dir '.[serve,local]'
USER nobody
# Freed memory goes back to the system: 80 MB less under load (docs/LOG.md).
ENV MALLOC_ARENA_MAX=2 MALLOC_TRIM_THRESHOLD_=131072
EXPOSE 8000
CMD ["sureenough", "serve", "--host", "0.0.0.0"]
