#!/bin/bash
set -e
echo hi
