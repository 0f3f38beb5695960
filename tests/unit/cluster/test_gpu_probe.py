from rigproof.cluster.gpu_probe import uuid_text


def test_the_uuid_is_written_as_nvml_does():
    assert uuid_text(bytes(range(16))) == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
