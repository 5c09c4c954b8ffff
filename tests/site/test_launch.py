"""Each chapter says where it can be run without installing anything. Read from the files."""

from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from .pages import NOTEBOOKS, ROOT
from .test_links import parsed

CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
REPOSITORY = urlsplit(CONFIG["repository"]["url"]).path.strip("/")
BRANCH = CONFIG["repository"]["branch"]


def links_to(site, path, host):
    links = [urlsplit(tag["href"]) for tag in parsed(site / path).find_all("a", href=True)]
    return [link for link in links if link.netloc == host]


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_a_page_of_a_notebook_opens_that_notebook_on_binder_and_colab(site, path):
    notebook = path.removesuffix(".html") + ".ipynb"
    [binder] = links_to(site, path, "mybinder.org")
    assert binder.path == f"/v2/gh/{REPOSITORY}/{BRANCH}"
    assert parse_qs(binder.query) == {"urlpath": [f"lab/tree/{notebook}"]}
    [colab] = links_to(site, path, "colab.research.google.com")
    assert colab.path == f"/github/{REPOSITORY}/blob/{BRANCH}/{notebook}"
