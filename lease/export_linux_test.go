package lease

func HasToken(env []byte, token string) bool { return hasToken(env, token) }
