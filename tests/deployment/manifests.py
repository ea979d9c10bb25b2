"""Prints the manifests of YAML files as one list of JSON.

    manifests.py FILE...
"""

import json
import sys
from pathlib import Path

import yaml

found = [manifest for file in sys.argv[1:] for manifest in yaml.safe_load_all(Path(file).read_text()) if manifest]
json.dump(found, sys.stdout)
