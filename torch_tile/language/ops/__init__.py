"""Operations of the language, by topic: each has its checks, its docstring, its eager body and what it builds."""
