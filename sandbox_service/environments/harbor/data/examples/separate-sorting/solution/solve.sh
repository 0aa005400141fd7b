#!/bin/bash
sort -k2,2nr -k1,1 /app/scores.txt | cut -d' ' -f1 > /app/ranking.txt
