#!/bin/bash
tail -n +2 /app/late.csv | sort -t, -k1,1n >> "$LEDGER"
tail -n +2 "$LEDGER" | awk -F, '{sum += $2} END {print sum}' > /app/total.txt
