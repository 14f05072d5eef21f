"""What a test of somebody's own code asks of a store, by Azure's SDK for Python with its defaults."""

import sys

from azure.core import MatchConditions
from azure.core.exceptions import (
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from azure.storage.blob import BlobServiceClient, ContentSettings


def refused(kind, code, call, *arguments, **named):
    """The call must fail so, and the error must have this code."""
    try:
        call(*arguments, **named)
    except kind as error:
        assert error.error_code == code, (error.error_code, error)
        return error
    raise AssertionError(f"{call} should have been refused with {code}")


service = BlobServiceClient.from_connection_string(sys.argv[1])
container = service.create_container("python", metadata={"OwnerName": "Ada"})
assert container.get_container_properties().metadata == {"OwnerName": "Ada"}
refused(ResourceExistsError, "ContainerAlreadyExists", service.create_container, "python")

# Upload and download: small, empty, and larger than the first part of a download.
digits = container.upload_blob("digits", b"0123456789", metadata={"OwnerName": "Ada"},
                               content_settings=ContentSettings(content_type="text/plain"))
assert digits.download_blob().readall() == b"0123456789"
assert digits.download_blob(offset=2, length=3).readall() == b"234"
assert digits.download_blob(offset=7).readall() == b"789"
refused(HttpResponseError, "InvalidRange", digits.download_blob, offset=10, length=1)
empty = container.upload_blob("empty", b"")
assert empty.download_blob().readall() == b""
large = bytes(range(256)) * (33 * 4096)
assert container.upload_blob("large", large).download_blob().readall() == large

# Properties and metadata.
assert digits.get_blob_properties().metadata == {"OwnerName": "Ada"}
digits.set_blob_metadata({"ownerName": "Ben"})
properties = digits.get_blob_properties()
assert properties.metadata == {"ownerName": "Ben"}
assert properties.content_settings.content_type == "text/plain"
assert digits.exists() and not container.get_blob_client("none").exists()

# Conditions.
refused(ResourceExistsError, "BlobAlreadyExists", container.upload_blob, "digits", b"")
digits.upload_blob(b"9876543210", overwrite=True, etag=properties.etag,
                   match_condition=MatchConditions.IfNotModified)
refused(ResourceModifiedError, "ConditionNotMet", digits.upload_blob, b"", overwrite=True,
        etag=properties.etag, match_condition=MatchConditions.IfNotModified)
refused(HttpResponseError, "ConditionNotMet", digits.get_blob_properties,
        etag=digits.get_blob_properties().etag, match_condition=MatchConditions.IfModified)

# Listing: flat, in pages, by prefix and delimiter.
for name in ["a/1", "a/2", "b & ü/<3>", "c"]:
    container.upload_blob(name, b"x", metadata={"Of": "list"})
flat = ["a/1", "a/2", "b & ü/<3>", "c", "digits", "empty", "large"]
assert [blob.name for blob in container.list_blobs()] == flat
pages = [[blob.name for blob in page] for page in container.list_blobs(results_per_page=3).by_page()]
assert pages == [flat[:3], flat[3:6], flat[6:]]
assert [blob.name for blob in container.walk_blobs(delimiter="/")][:3] == ["a/", "b & ü/", "c"]
assert [blob.name for blob in container.walk_blobs("a/")] == ["a/1", "a/2"]
[first, *_] = container.list_blobs(name_starts_with="a/", include=["metadata"])
assert first.metadata == {"Of": "list"} and first.size == 1 and first.lease.state == "available"
service.create_container("python-two")
names = [box.name for box in service.list_containers("python", results_per_page=1)]
assert names == ["python", "python-two"]

# Leases: all five actions.
lease = digits.acquire_lease(lease_duration=15)
refused(ResourceExistsError, "LeaseAlreadyPresent", digits.acquire_lease, lease_duration=15)
refused(HttpResponseError, "LeaseIdMissing", digits.upload_blob, b"x", overwrite=True)
lease.renew()
other = "11111111-2222-4333-8444-555555555555"
lease.change(proposed_lease_id=other)
assert lease.id == other
digits.set_blob_metadata({"Of": "lease"}, lease=lease)
assert digits.get_blob_properties().lease.state == "leased"
assert lease.break_lease(lease_break_period=0) == 0
refused(HttpResponseError, "LeaseIsBrokenAndCannotBeRenewed", lease.renew)
lease.release()
digits.acquire_lease().release()

# The store names each unsupported operation. The SDK uploads more than 64 MiB in blocks.
error = refused(HttpResponseError, "NotImplemented", digits.stage_block, "one", b"one")
assert "does not support Put Block" in error.message, error.message
error = refused(HttpResponseError, "NotImplemented", digits.set_standard_blob_tier, "Cool")
assert "does not support Set Blob Tier" in error.message, error.message
error = refused(HttpResponseError, "NotImplemented", container.upload_blob, "t", b"", tags={"a": "b"})
assert "x-ms-tags" in error.message, error.message
error = refused(HttpResponseError, "NotImplemented", empty.start_copy_from_url, digits.url)
assert "x-ms-copy-source" in error.message, error.message

# Deletion of the blob and the container.
digits.delete_blob()
refused(ResourceNotFoundError, "BlobNotFound", digits.download_blob)
container.delete_container()
refused(ResourceNotFoundError, "ContainerNotFound", container.get_container_properties)
print("all is well")
