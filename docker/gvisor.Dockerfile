# training-sandbox:VERSION-gvisor: the service's image, and for boxes without an engine gVisor's runsc and the root
# folder that all of them share. `python -m scripts.project_image gvisor` makes it on an image of the service.
ARG SERVICE=training-sandbox
FROM ${SERVICE} AS made
USER 0:0
COPY debian.sh runsc.sh /made/
RUN mkdir /made/status.d && sh /made/runsc.sh /made/status.d/runsc
COPY base-bookworm.tar /made/
# The cache is a volume, which lasts for one instruction only. One cp, so that the folder with links to tasks still
# shares the files of the other one.
RUN images=/var/cache/training-sandbox/images \
 && mkdir -p "$images" /made/opt \
 && ln -s /made/base-bookworm.tar "$images/" \
 && sandbox-service images build --gvisor \
 && cp -a "$images"/root-* /made/opt/ \
 && for folder in /made/opt/root-*; do \
        name=$(basename "$folder"); mv "$folder" "/made/opt/sandbox-root${name#root-????????????????}" || exit 1; \
    done

FROM ${SERVICE}
COPY --from=made /usr/local/bin/runsc /usr/local/bin/runsc
COPY --from=made /made/status.d/ /var/lib/dpkg/status.d/
COPY --from=made /made/opt/ /opt/
CMD ["serve", "sandbox.kind=gvisor", "sandbox.gvisor_root=/opt/sandbox-root"]
