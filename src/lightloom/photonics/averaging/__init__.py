"""The averaging of OptINC: the function, its constructed networks, their proof, and the cascade."""
