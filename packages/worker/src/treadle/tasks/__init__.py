"""What a task is: the decorator and what it makes of a function, and what the function is given and may raise."""
