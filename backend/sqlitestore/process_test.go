package sqlitestore_test

func helper() bool { return false }
