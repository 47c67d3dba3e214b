package collision_user

func Ship() {}
