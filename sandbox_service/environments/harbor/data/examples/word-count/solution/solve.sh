#!/bin/bash
cd /app
tr -cs '[:alpha:]' '\n' < poem.txt | tr '[:upper:]' '[:lower:]' | grep . | sort | uniq -c \
    | sort -k1,1nr -k2,2 | head -n 3 | awk '{print $2, $1}' > top.txt
