"""A lease loop on Azure's SDK for Python, with its default time-outs and retries.

The calls are those of Microsoft's guide "Create and manage blob leases with Python". The SDK's samples have
them one by one and no loop, so the loop is that of Microsoft's leader election sample, with a shorter rhythm:
a lease of 15 s, renewed 5 s after the last renewal, another attempt after 1 s. The work goes on beside the renewals,
until one of them fails.
"""

import os
import signal
import sys
import time

from azure.core.exceptions import AzureError
from azure.storage.blob import BlobClient
from beat import Work

signal.signal(signal.SIGTERM, lambda *_: sys.exit())
account = os.environ["AZURE_STORAGE_CONNECTION_STRING"]
container, name = os.environ["ELECTION"].split("/")
# Azurite does not know the newest version of the protocol, which this SDK would ask for.
blob = BlobClient.from_connection_string(account, container, name, api_version="2026-06-06")
while True:
    try:
        lease = blob.acquire_lease(lease_duration=15)
    except AzureError as error:
        print("does not lead:", getattr(error, "error_code", error), flush=True)
        time.sleep(1)
        continue
    print("leads", flush=True)
    work = Work()
    try:
        while True:
            time.sleep(5)
            lease.renew()
    except AzureError as error:
        work.stop()
        print("lost:", type(error).__name__, flush=True)
    except SystemExit:
        work.stop()
        lease.release()
        raise
