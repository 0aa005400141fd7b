#!/bin/bash
cat > /app/sort.sh <<'END'
sort -k2,2nr -k1,1 | cut -d' ' -f1
END
