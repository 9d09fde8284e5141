"""What `import softcut` shows."""

import softcut


def test_dir_lists_public_names_only_and_all_of_them_exist():
    assert dir(softcut) == sorted(softcut.__all__)
    assert all(getattr(softcut, name) is not None for name in dir(softcut))
