from lossdial.base.errors import closest, near


def test_the_nearest_name_whatever_its_case():
    assert near("AGE", ["income", "age"]) == ["age"]
    assert closest("incme", ["age", "income"]) == "did you mean 'income'? There are 'age', 'income'."


def test_a_part_of_a_name_is_near():
    assert near("default", ["age", "default.payment.next.month"]) == ["default.payment.next.month"]


def test_none_near_lists_twenty():
    assert closest("zzz", ["a", "b"]) == "there are 'a', 'b'."
    assert closest("zzz", range(1000, 1030)).endswith("'1019', ….")
    assert closest("zzz", []) == "there are none."
