"""Every DAG's form opens from its button, and can be sent or says which field it waits for."""

from collections.abc import Callable
from typing import Any

import pytest

from lucid_airflow.dag_defaults import dag_ids
from tests.browser.driver import expect

WAITS_FOR = {
    "ingest_logs": "Cluster",  # of which no name can be guessed
    "rollback_release": "Reason",  # people must say why
}


@pytest.mark.parametrize("dag_id", sorted(dag_ids()))
def test_a_form_opens_and_can_be_sent(visit: Callable[..., Any], dag_id: str) -> None:
    page = visit(f"/dags/{dag_id}")
    page.get_by_role("button", name="Trigger").first.click()
    form = page.get_by_role("dialog")
    send = form.get_by_role("button", name="Trigger").last
    expect(send).to_be_visible()
    if dag_id in WAITS_FOR:
        expect(send).to_be_disabled()
        expect(form).to_contain_text(WAITS_FOR[dag_id])
    else:
        expect(send).to_be_enabled()
