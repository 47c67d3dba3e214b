package collision_user

func InTest() {}
